import os
import warnings
from pathlib import Path

import pytest
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn

from tests.models.factories import vit_of_64
from vitscope.anatomy.flops import count_flops
from vitscope.cli.app import main
from vitscope.models import create_model
from vitscope.models.info import describe, without_values

TRAINED = "tests.models.test_info:trained"
PLACE = "VITSCOPE_TEST_WEIGHTS"


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )


def trained() -> nn.Module:
    """As people write it: the function loads its weights by itself."""
    model = _network()
    model.load_state_dict(load_file(os.environ[PLACE]))
    return model


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights.safetensors"
    save_file(_network().state_dict(), file)
    monkeypatch.setenv(PLACE, str(file))


def test_weights_that_a_factory_loads_are_not_spoken_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with without_values():
            assert all(parameter.is_meta for parameter in create_model(TRAINED).parameters())
        assert describe(TRAINED).parameters == sum(p.numel() for p in _network().parameters())
        assert main(["anatomy", TRAINED]) == 0


def test_other_warnings_are_heard() -> None:
    with pytest.warns(UserWarning, match="something else"), without_values():
        warnings.warn("for a.weight: something else", stacklevel=1)
    assert torch.empty(1).device.type == "cpu"


@pytest.mark.parametrize(
    ("name", "source"), [("vit_mini", "vitscope"), ("resnet18", "timm"), ("tv:resnet18", "torchvision")]
)
def test_counts_what_a_real_model_has(name: str, source: str) -> None:
    info = describe(name)
    model = create_model(name)
    assert info.parameters == sum(p.numel() for p in model.parameters())
    assert info.input_size == model.pretrained_cfg["input_size"]
    assert info.source == source
    assert info.flops == count_flops(model, info.input_size)


def test_constructor_that_calculates_with_tensors() -> None:
    info = describe("tv:regnet_x_400mf")
    published = torchvision.models.RegNet_X_400MF_Weights.DEFAULT.meta
    assert info.parameters == published["num_params"]
    assert info.flops is not None
    assert info.flops / 2e9 == pytest.approx(published["_ops"], abs=5e-4)  # multiply-adds, rounded


def test_pass_that_needs_weights_has_no_flops() -> None:
    assert describe("tests.models.factories:NeedsValues").flops is None


def test_flops_are_those_of_the_images_that_it_is_shown() -> None:
    """Not of the size in `pretrained_cfg`, at which the model cannot run."""
    info = describe("tests.models.factories:vit_of_64")
    assert info.input_size == (3, 64, 64)
    assert info.flops == count_flops(vit_of_64(), (3, 64, 64))
