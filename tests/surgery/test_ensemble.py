import copy
import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

import vitscope as vs
from tests.cases import HUGGING_FACE
from tests.surgery.checks import (
    assert_close,
    assert_equal,
    check_graph,
    check_operated,
    check_saved,
    outputs,
    short,
)
from tests.surgery.fashion import fashion
from vitscope.core.errors import BadResult, UnsupportedModel
from vitscope.models import origin, save_model
from vitscope.surgery.ensemble import DeepEnsemble


def images_for(model: nn.Module, count: int = 3) -> torch.Tensor:
    return torch.randn(count, *vs.anatomy(model).input_shape, generator=torch.Generator().manual_seed(0))


def with_dropout(p: float = 0.3) -> nn.Module:
    return vs.surgery.mc_dropout(vs.create_model("vit_mini", pretrained=True), p)


def short_resnet() -> nn.Module:
    return short("resnet_mini", layers=(1, 1, 1, 1))


def short_vit() -> nn.Module:
    return short("vit_mini", depth=1)


def test_average_of_sampled_networks() -> None:
    model = with_dropout().double()
    images = images_for(model).double()
    with vs.surgery.sampling(model, seed=7):
        passes = [torch.softmax(outputs(model, images)[0], 1) for _ in range(5)]
    assert len({float(p[0, 0]) for p in passes}) == 5
    vs.surgery.ensemble(model, 5, seed=7)
    said = outputs(model, images)[0]
    assert torch.allclose(said.exp(), sum(passes) / 5, atol=1e-13)
    assert torch.allclose(said.exp().sum(1), torch.ones(3, dtype=torch.float64))


def test_the_same_call_says_the_same_and_touches_no_generator() -> None:
    model = vs.surgery.ensemble(with_dropout(), 3)
    images = images_for(model)
    state = torch.get_rng_state()
    said = outputs(model, images)
    assert_equal(outputs(model, images), said)
    assert torch.equal(torch.get_rng_state(), state)
    assert_close([t[1:] for t in said], outputs(model, images[1:]))  # whatever images are beside it
    other = vs.surgery.ensemble(with_dropout(), 3, seed=1)
    assert not torch.equal(outputs(other, images)[0], said[0])


def test_training_is_left_alone() -> None:
    model = with_dropout().train()
    images = images_for(model)
    torch.manual_seed(0)
    said = model(images)
    vs.surgery.ensemble(model, 3)
    assert model.ensemble.training
    torch.manual_seed(0)
    assert torch.equal(model(images), said)


def test_gradients_reach_the_weights_through_every_pass() -> None:
    model = vs.surgery.ensemble(with_dropout(), 3).eval()
    nn.functional.nll_loss(model(images_for(model)), torch.tensor([0, 1, 2])).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_undone() -> None:
    model = with_dropout()
    images = images_for(model)
    said = outputs(model, images)
    vs.surgery.undo(vs.surgery.ensemble(model, 2))
    assert_equal(outputs(model, images), said)


def test_named_outputs() -> None:
    case = HUGGING_FACE[0]
    model, images = case.model(), case.images(2)
    vs.surgery.mc_dropout(model, example=case.size)
    vs.surgery.ensemble(model, 2, example=case.size)
    with torch.no_grad():
        assert torch.allclose(model(images).logits.exp().sum(1), torch.ones(2))


def test_refusals() -> None:
    model = vs.create_model("vit_mini")
    with pytest.raises(vs.surgery.CannotOperate, match="mc_dropout"):
        vs.surgery.ensemble(model)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = with_dropout()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.inner(x), self.inner(x)

    with pytest.raises(UnsupportedModel, match=r"returns 0: 2x10, 1: 2x10 .*output=0 or output=1"):
        vs.surgery.ensemble(Two(), example=vs.anatomy(model).input_shape)


def test_operated(tmp_path) -> None:
    model = vs.surgery.ensemble(vs.surgery.mc_dropout(short_resnet()), 2)
    check_operated(model, images_for(model), tmp_path, graph=False)
    moved = copy.deepcopy(model)
    assert all(place in list(moved.modules()) for place in moved.ensemble.places)


@pytest.mark.parametrize(
    "model", [short_vit, pytest.param(short_resnet, marks=pytest.mark.slow)], ids=["vit", "resnet"]
)
def test_exports_and_compiles(model: Callable[[], nn.Module]) -> None:
    made = vs.surgery.ensemble(vs.surgery.mc_dropout(model()), 2)
    check_graph(made, images_for(made))


def test_better_probabilities_on_real_images() -> None:
    """Averaging over passes beats the passes it averages, as Jensen's inequality says it must."""
    model = with_dropout(0.2).eval()
    images, labels = fashion(model, 128)
    with torch.no_grad(), vs.surgery.sampling(model):
        single = [nn.functional.cross_entropy(model(images), labels) for _ in range(4)]
    vs.surgery.ensemble(model, 4)
    with torch.no_grad():
        log_p = model(images)
    together = nn.functional.cross_entropy(log_p, labels)
    assert together.isfinite()
    assert torch.allclose(log_p.exp().sum(1), torch.ones(128), atol=1e-5)
    assert together < sum(single) / 4
    assert (log_p.argmax(1) == labels).float().mean() > 0.5


# deep ensembles


def members() -> list[nn.Module]:
    torch.manual_seed(0)
    first = vs.create_model("resnet_mini", pretrained=True)
    second = vs.surgery.smooth(vs.create_model("resnet_mini", pretrained=True), "stage_ends")
    return [first, second, vs.create_model("vit_mini", pretrained=True)]


def test_deep_ensemble_averages_probabilities() -> None:
    models = members()
    images = images_for(models[0])
    wanted = sum(torch.softmax(outputs(m, images)[0].double(), 1) for m in models) / 3
    said = outputs(vs.surgery.deep_ensemble(models), images)[0]
    assert (said.exp() - wanted).abs().max() < 1e-6


def test_deep_ensemble_is_saved_and_loaded(tmp_path) -> None:
    whole = vs.surgery.deep_ensemble(members())
    images = images_for(whole)
    check_saved(whole, images, tmp_path)
    described = json.loads((tmp_path / "run" / "config.json").read_text())["model"]
    assert [m["name"] for m in described["arguments"]["members"]] == [
        "resnet_mini",
        "resnet_mini",
        "vit_mini",
    ]
    again = vs.create_model(tmp_path / "run")
    assert isinstance(again, DeepEnsemble)
    assert [len(vs.surgery.record(m)) for m in again.members] == [0, 1, 0]


@pytest.mark.parametrize(
    ("model", "operation"),
    [
        (short_vit, "broadcast_context"),
        pytest.param(short_resnet, "smooth stage_ends", marks=pytest.mark.slow),
    ],
    ids=["vit", "resnet"],
)
def test_deep_ensemble_exports_and_compiles(model: Callable[[], nn.Module], operation: str) -> None:
    whole = vs.surgery.deep_ensemble([model(), vs.operate(model(), operation).model])
    check_graph(whole, images_for(whole))


def test_deep_ensemble_of_run_folders(tmp_path) -> None:
    classes = [str(i) for i in range(10)]
    for i, member in enumerate(members()):
        (tmp_path / str(i)).mkdir()
        save_model(member, tmp_path / str(i), classes)
    whole = vs.surgery.deep_ensemble([tmp_path / "0", str(tmp_path / "1"), tmp_path / "2"])
    images = images_for(whole)
    assert_equal(outputs(whole, images), outputs(vs.surgery.deep_ensemble(members()), images))
    check_saved(whole, images, tmp_path)
    assert [origin(m).name for m in whole.members] == ["resnet_mini", "resnet_mini", "vit_mini"]


def test_deep_ensemble_of_ensembles_and_streams(tmp_path) -> None:
    whole = vs.surgery.deep_ensemble([vs.surgery.ensemble(with_dropout(), 2), vs.create_model("vit_mini")])
    nested = vs.surgery.deep_ensemble([whole, vs.create_model("vit_mini", pretrained=True)])
    check_saved(nested, images_for(nested), tmp_path)


def test_deep_ensemble_of_models_built_in_python(tmp_path) -> None:
    built = nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 4))
    whole = vs.surgery.deep_ensemble([built, copy.deepcopy(built)])
    save_model(whole, tmp_path, ["a", "b", "c", "d"])
    with pytest.raises(BadResult, match="built in Python"):
        vs.create_model(tmp_path)


def test_deep_ensemble_refusals() -> None:
    model = vs.create_model("vit_mini")
    with pytest.raises(vs.surgery.CannotOperate, match="no members"):
        vs.surgery.deep_ensemble([])
    with pytest.raises(vs.surgery.CannotOperate, match="twice"):
        vs.surgery.deep_ensemble([model, model])
    with pytest.raises(vs.surgery.CannotOperate, match="output shape"):
        vs.surgery.deep_ensemble([model, vs.create_model("vit_mini", num_classes=7)])
    with pytest.raises(vs.surgery.CannotOperate, match="input size"):
        vs.surgery.deep_ensemble([model, vs.create_model("vit_mini", img_size=64)])
    with pytest.raises(vs.surgery.CannotOperate, match="mean"):
        vs.surgery.deep_ensemble([model, vs.create_model("resnet18", num_classes=10, img_size=32)])
