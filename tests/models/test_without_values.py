import os
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from vitscope.cli.app import main
from vitscope.models import create_model
from vitscope.models.create import describe
from vitscope.models.without_values import without_values

TRAINED = "tests.models.test_without_values:trained"
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
