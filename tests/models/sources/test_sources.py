"""What the sources share: a constructor's arguments, and weights in a network that may not be there."""

from pathlib import Path

import pytest
from huggingface_hub import constants
from torch import nn

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.models.errors import BadWeights, UnknownArgument, UnknownModel
from vitscope.models.sources import arguments_of, call, is_cut_off, signature_of, without_retries


def build(width: int = 1) -> nn.Module:
    return nn.Linear(width, width)


def known() -> set[str]:
    return signature_of(build)


def test_optional_arguments_are_left_out_where_they_are_refused() -> None:
    model = call("net", build, {"width": 3}, known, optional={"img_size": 4})
    assert model.in_features == 3


def test_refused_argument() -> None:
    with pytest.raises(UnknownArgument, match="net takes no argument 'widht'; did you mean width") as caught:
        call("net", build, {"widht": 3}, known)
    assert caught.value.argument == "widht"


def test_nothing_is_near() -> None:
    with pytest.raises(UnknownArgument, match="it takes: width"):
        call("net", build, {"q": 3}, known)


def test_other_errors_pass() -> None:
    with pytest.raises(TypeError, match="empty"):
        call("net", build, {"width": "a"}, known)


def test_arguments_of_a_class_include_those_of_its_bases() -> None:
    class Base(nn.Module):
        def __init__(self, depth: int = 1) -> None:
            super().__init__()

    class Child(Base):
        def __init__(self, heads: int = 1, **kwargs: int) -> None:
            super().__init__(**kwargs)

    assert arguments_of(Child()) == {"heads", "depth", "**"}


@pytest.fixture
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub has a name that nobody answers to, and nothing is in the cache."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))


def test_pretrained_weights(no_network: None, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        BadWeights, match=r"no pretrained weights for resnet18: there is no network.*--no-pretrained"
    ):
        vs.create_model("resnet18", pretrained=True)
    assert "Retry" not in capfd.readouterr().err


def test_models_of_the_hub(no_network: None, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        UnknownModel, match="no Hugging Face model 'owner/name' in the cache, and there is no network"
    ):
        vs.create_model("hf:owner/name")
    with pytest.raises(VitscopeError, match="no Hugging Face model 'a//b'"):
        vs.create_model("hf:a//b")
    with pytest.raises(
        UnknownModel, match="no model 'hf-hub:owner/name': it is not in the cache, and there is no"
    ):
        vs.create_model("hf-hub:owner/name")
    assert "Retry" not in capfd.readouterr().err


def test_what_lies_here_needs_none(no_network: None) -> None:
    assert vs.create_model("vit_mini", pretrained=True) is not None
    assert is_cut_off()
    before = constants.HF_HUB_OFFLINE
    with without_retries() as cut_off:
        assert cut_off
        assert constants.HF_HUB_OFFLINE
    assert before == constants.HF_HUB_OFFLINE


def test_behind_a_proxy_names_are_not_looked_up(no_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://localhost:1")
    assert not is_cut_off()
