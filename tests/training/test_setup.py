import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

import vitscope as vs
from vitscope.core.errors import BadArgument, BadData, UnsupportedModel, VitscopeError
from vitscope.data import load_data
from vitscope.models import BadWeights, create_model
from vitscope.recipes.named import get_recipe
from vitscope.tasks import Classification
from vitscope.training import TrainOptions, train
from vitscope.training.loading import find_images
from vitscope.training.setup import find_model, settle

CPU = torch.device("cpu")
MINI = get_recipe("mini")


def test_spec_brings_its_test_split() -> None:
    images = find_images("fashion", None, fraction=0.01, seed=0)
    assert (len(images.train), len(images.held_out)) == (60, 2000)
    assert (images.train.split, images.held_out.split) == ("train", "test")
    assert images.name == "fashion"


def test_loaded_data_is_taken_as_it_is() -> None:
    data = load_data("fashion", split="train", fraction=0.02)
    held_out = load_data("fashion", split="test", fraction=0.01)
    images = find_images(data, held_out, 1.0, 0)
    assert images.train is data
    assert images.held_out is held_out
    assert len(find_images(data, None, 0.5, 0).train) == 60


def test_training_on_a_test_split_measures_on_nothing() -> None:
    assert find_images(load_data("fashion", split="test"), None, 1.0, 0).held_out is None


def test_any_data_set() -> None:
    data: Any = Subset(load_data("fashion", split="train"), range(20))
    images = find_images(data, None, 1.0, 0)
    assert (images.train, images.held_out, images.classes) == (data, None, None)
    with pytest.raises(VitscopeError, match=r"fraction=0.5 needs data by name"):
        find_images(data, None, 0.5, 0)


def test_nothing_to_train_on() -> None:
    with pytest.raises(BadData, match="cannot train on this list"):
        find_images([], None, 1.0, 0)
    images = torch.zeros(4, 3, 32, 32)
    for tensors in (images, (images, torch.zeros(4)), [images.numpy(), images.numpy()]):
        with pytest.raises(BadData, match=r"cannot train on tensors.*expected a data set of \(PIL picture"):
            find_images(tensors, None, 1.0, 0)
    with pytest.raises(BadData, match="cannot train on this DataLoader"):
        find_images(DataLoader(load_data("fashion", split="train")), None, 1.0, 0)  # type: ignore[arg-type]


def test_a_run_folder_for_other_classes_says_how_many_there_are(tmp_path: Path) -> None:
    vs.save_model(create_model("vit_mini", depth=1), tmp_path)
    with pytest.raises(BadWeights, match=r"head.weight.*; the images to train on have 3 classes"):
        find_model(tmp_path, ("a", "b", "c"), None, MINI)


def test_model_by_name_gets_a_head_and_stochastic_depth() -> None:
    model = find_model("vit_mini", ("a", "b", "c"), 16, MINI)
    assert model.num_classes == 3
    assert model.blocks[-1].drop_path1.drop_prob == pytest.approx(MINI.drop_path)
    assert model.pretrained_cfg["input_size"] == (3, 16, 16)


def test_model_without_stochastic_depth() -> None:
    assert find_model("tv:squeezenet1_1", ("a", "b"), 32, MINI).num_classes == 2


def test_module_is_taken_as_it_is() -> None:
    model = nn.Linear(2, 2)
    assert find_model(model, None, None, MINI) is model


def test_classes_follow_the_head() -> None:
    model = create_model("vit_mini", depth=1, num_classes=4)
    assert settle(model, ("a", "b"), CPU)[1] == ("a", "b", "2", "3")
    assert settle(model, None, CPU)[1] == ("0", "1", "2", "3")
    with pytest.raises(BadData, match="vit_mini has 4 outputs for 5 classes"):
        settle(model, tuple("abcde"), CPU)


def test_model_that_does_not_classify() -> None:
    model = create_model("vit_mini", depth=1).train()
    model.forward = model.forward_features
    with pytest.raises(VitscopeError, match=r"returns \(1, 65, 96\) for one image"):
        Classification().outputs(model, settle(create_model("vit_mini"), None, CPU)[0], CPU)
    assert model.training


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (nn.Conv2d(5, 4, 3), "the images have 3 channels and it takes 5; give it images of as many channels"),
        (nn.Flatten(), "RuntimeError: .*mat1 and mat2 shapes cannot be multiplied"),
    ],
)
def test_a_model_that_does_not_take_the_images_is_refused_in_words(first: nn.Module, why: str) -> None:
    model = nn.Sequential(first, nn.Flatten(), nn.Linear(7, 10))
    with pytest.raises(UnsupportedModel, match=f"^Sequential cannot be run on a 1x3x224x224 input: {why}"):
        vs.train(model, "fashion", progress=False)


def test_those_by_name_stand_in_the_place_of_those_of_the_object(tmp_path: Path) -> None:
    data = vs.load_data("fashion", split="train").subset(range(8))
    options = TrainOptions(epochs=3, batch_size=8, seed=5, changes={"warmup_epochs": 0.0}, progress=False)
    done = train("resnet_mini", data, "mini", tmp_path, options, held_out=data, epochs=1)
    setting = json.loads((tmp_path / "run.json").read_text())["options"]
    assert done.epochs == setting["recipe"]["epochs"] == 1
    assert (setting["recipe"]["batch_size"], setting["recipe"]["warmup_epochs"]) == (8, 0.0)
    assert setting["seed"] == 5


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"epochs": 0}, "epochs is 0; expected a whole number, 1 or more, or None"),
    ({"monitor": "variance"}, "monitor is 'variance'; expected several of: text"),
    ({"track": "tensorbord"}, "; did you mean tensorboard\\?"),
    ({"device": 3}, "device is 3; expected cpu, cuda, "),
]


@pytest.mark.parametrize(("given", "expected"), WRONG)
def test_the_object_and_the_call_refuse_the_same_in_the_same_words(given: Any, expected: str) -> None:
    said = []
    for call in (lambda: TrainOptions(**given), lambda: train("vit_mini", "fashion", **given)):
        with pytest.raises(BadArgument, match=expected) as refused:
            call()
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadArgument, match=r"^train\(\): no argument 'epoch'; did you mean 'epochs'\?$"):
        train("vit_mini", "fashion", epoch=1)
    with pytest.raises(
        BadArgument, match=r"^TrainOptions\(\): no argument 'epoch'; did you mean 'epochs'\?$"
    ):
        TrainOptions(epoch=1)  # type: ignore[call-arg]
    with pytest.raises(BadArgument, match=r"^train\(\): no argument 'modle'; did you mean 'model'\?$"):
        train(modle="vit_mini", data="fashion", epochs=1)  # type: ignore[call-arg]
    with pytest.raises(BadArgument, match="'data' is missing"):
        train("vit_mini", epochs=1)  # type: ignore[call-arg]


def test_a_factory_need_not_take_what_nobody_typed() -> None:
    name = "tests.exams.factories:small_transformer"
    model = find_model(name, list("0123456789"), None, MINI)
    assert settle(model, list("0123456789"), CPU)[1] == tuple("0123456789")
    with pytest.raises(BadData, match="has 10 outputs for 11 classes; make it with that num_classes"):
        settle(model, list("0123456789a"), CPU)
    with pytest.raises(VitscopeError, match="takes no argument 'depth'"):
        find_model(name, list("01"), None, MINI, depth=3)
