"""Without a network what is missing is said at once, with what to do."""

from pathlib import Path

import pytest
from huggingface_hub import constants

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.models.errors import BadWeights, UnknownModel
from vitscope.models.zoo.network import is_cut_off, no_vain_tries


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
    assert "Retry" not in capfd.readouterr().err


def test_what_lies_here_needs_none(no_network: None) -> None:
    assert vs.create_model("vit_mini", pretrained=True) is not None
    assert is_cut_off()
    before = constants.HF_HUB_OFFLINE
    with no_vain_tries() as cut_off:
        assert cut_off
        assert constants.HF_HUB_OFFLINE
    assert before == constants.HF_HUB_OFFLINE


def test_behind_a_proxy_names_are_not_looked_up(no_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://localhost:1")
    assert not is_cut_off()
