"""A user's own factories through `create_model`."""

from pathlib import Path

import pytest
import torch

from vitscope.core.errors import VitscopeError
from vitscope.core.interface import declare
from vitscope.data import data_config
from vitscope.models import UnknownArgument, UnknownModel, create_model, save_model

SOURCE = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, num_classes=4, width=8, in_chans=3):
        pool = nn.AdaptiveAvgPool2d(1)
        super().__init__(nn.Conv2d(in_chans, width, 3), pool, nn.Flatten(), nn.Linear(width, num_classes))
        self.num_classes = num_classes

def fixed():
    return Net()

def wrong():
    return "a model"
"""


@pytest.fixture(autouse=True)
def _module_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users_nets.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)


def test_class_with_arguments() -> None:
    model = create_model("users_nets:Net", num_classes=6, img_size=24, width=5)
    assert model(torch.randn(2, 3, 24, 24)).shape == (2, 6)
    assert model[0].out_channels == 5
    assert model.pretrained_cfg["input_size"] == (3, 24, 24)
    assert model.pretrained_cfg["num_classes"] == 6


def test_what_a_factory_does_not_say_nobody_says(tmp_path: Path) -> None:
    grey = create_model("users_nets:Net", in_chans=1)
    assert data_config(grey).input_size == (1, 224, 224)
    model = create_model("users_nets:fixed")
    assert data_config(model).said_by == "nobody"
    save_model(model, tmp_path / "kept", list("abcd"))
    assert data_config(create_model(tmp_path / "kept", trust_code=True)).said_by == "nobody"
    declare(model, mean=0.1, std=0.2)
    save_model(model, tmp_path / "kept", list("abcd"))
    back = data_config(create_model(tmp_path / "kept", trust_code=True))
    assert (back.mean, back.std, back.said_by) == ((0.1,) * 3, (0.2,) * 3, "the user")


def test_dotted_path_of_a_library() -> None:
    model = create_model("torchvision.models:resnet18", num_classes=3).eval()
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 3)


def test_function_without_arguments() -> None:
    assert create_model("users_nets:fixed").num_classes == 4
    with pytest.raises(UnknownArgument, match="users_nets:fixed takes no argument 'num_classes'"):
        create_model("users_nets:fixed", num_classes=3)


def test_what_is_no_model() -> None:
    with pytest.raises(VitscopeError, match=r"returned a str; expected a torch.nn.Module"):
        create_model("users_nets:wrong")


def test_no_such_function_or_module() -> None:
    with pytest.raises(UnknownModel, match=r"has no function 'fixd'; it has: .*fixed"):
        create_model("users_nets:fixd")
    with pytest.raises(UnknownModel, match=r"module 'os' has no function 'path'; it has: fspath, .*\.\.\.$"):
        create_model("os:path")
    with pytest.raises(UnknownModel, match="cannot import 'no_such_module'"):
        create_model("no_such_module:make")
