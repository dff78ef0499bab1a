"""A model that goes into a run folder comes out of it the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vitscope as vs
from vitscope.core.errors import BadResult
from vitscope.data import DataConfig, data_config
from vitscope.models import BadWeights, create_model, load_run_weights, save_model

CLASSES = ("cat", "dog", "cow")
CONFIG = DataConfig(input_size=(3, 16, 16), mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), crop_pct=0.9)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = create_model("vit_mini", num_classes=3, img_size=16, depth=2)
    save_model(model, tmp_path, CLASSES, CONFIG)
    return tmp_path


def _edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize("as_text", [True, False])
def test_round_trip(tmp_path: Path, as_text: bool) -> None:
    model = create_model("resnet_mini", num_classes=3).train()
    model(torch.randn(8, 3, 32, 32))  # moves the running statistics
    save_model(model, tmp_path, CLASSES)
    back = create_model(str(tmp_path) if as_text else tmp_path).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(back(images), model.eval()(images), rtol=0, atol=0)


def test_data_configuration_and_classes_come_back(folder: Path) -> None:
    model = create_model(folder)
    assert data_config(model) == CONFIG
    assert model.pretrained_cfg["label_names"] == CLASSES


def test_a_model_from_a_folder_can_be_saved_again(folder: Path, tmp_path: Path) -> None:
    save_model(create_model(folder), tmp_path / "again", CLASSES)
    first, second = ((f / "config.json").read_text() for f in (folder, tmp_path / "again"))
    assert json.loads(first)["model"] == json.loads(second)["model"]
    assert json.loads(first)["data"] == json.loads(second)["data"]


def test_model_that_was_built_in_python(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    save_model(model, tmp_path, CLASSES, CONFIG)
    with pytest.raises(BadResult, match="weights of a Sequential that was built in Python"):
        create_model(tmp_path)
    other = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    load_run_weights(other, tmp_path)
    assert torch.equal(other[1].weight, model[1].weight)


def test_weights_of_another_architecture(folder: Path) -> None:
    _edit(folder, model={"name": "vit_mini", "arguments": {"depth": 1, "num_classes": 3, "img_size": 16}})
    with pytest.raises(
        BadWeights, match=r"model.safetensors does not fit VisionTransformer: 12 unexpected: blocks.1"
    ):
        create_model(folder)


def test_other_number_of_classes_than_trained(folder: Path) -> None:
    with pytest.raises(BadWeights, match=r"head.weight \(file \(3, 96\), model \(5, 96\)\)"):
        create_model(folder, num_classes=5)


def test_newer_schema(folder: Path) -> None:
    _edit(folder, schema=99)
    with pytest.raises(BadResult, match="has schema 99, this vitscope reads 1"):
        create_model(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "one"}', '{"schema": 1}'])
def test_damaged_configuration(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(BadResult, match=r"config\.json"):
        create_model(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 10**9}, "a size that none has"),
        ({"img_size": [16, 10**12]}, "a size that none has"),
        ({"depth": 90_000}, r"far larger than the [0-9]+ numbers in model\.safetensors"),
        ({"embed_dim": 30_000}, "far larger"),
    ],
)
def test_a_description_of_a_giant_is_refused_before_it_is_built(
    folder: Path, arguments: dict[str, Any], message: str
) -> None:
    _edit(folder, model={"name": "vit_mini", "arguments": {"num_classes": 3, "img_size": 16, **arguments}})
    with pytest.raises(BadResult, match=rf"config\.json is damaged: .*{message}"):
        create_model(folder)
    assert create_model("vit_mini").num_classes == 10  # nobody counts any more


def test_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match=r"holds no model \(no config.json\)"):
        create_model(tmp_path)


def test_weights_are_lost(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadWeights, match="no weights at"):
        create_model(folder)


def test_a_damaged_record_of_surgery_is_refused(folder: Path) -> None:
    _edit(folder, surgery=[{"operation": "smooth"}])
    with pytest.raises(BadResult, match="is damaged"):
        vs.create_model(folder)  # which knows the operations


def test_any_model_can_be_saved_from_python_in_one_line(tmp_path: Path) -> None:
    model = vs.surgery.smooth(vs.create_model("resnet_mini", num_classes=4))
    vs.save_model(model, tmp_path / "new" / "run")
    assert json.loads((tmp_path / "new" / "run" / "config.json").read_text())["classes"] == [
        "0",
        "1",
        "2",
        "3",
    ]
    again = vs.create_model(str(tmp_path / "new" / "run"))
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(again.eval()(x), model.eval()(x))
    own = nn.Linear(2, 3)
    vs.save_model(own, str(tmp_path / "own"), classes=["a", "b", "c"])
    other = nn.Linear(2, 3)
    vs.models.load_run_weights(other, tmp_path / "own")
    assert torch.equal(other.weight, own.weight)
