"""Weights on disk: whole or refused, and never a pickle."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load
from torch import nn

from vitscope.models import BadWeights, create_model
from vitscope.models.checkpoints import difference, load_weights, read_weights, weight_bytes


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(weight_bytes(create_model("vit_mini", depth=1).state_dict()))
    return path


def test_round_trip_is_exact_for_any_memory_layout() -> None:
    model = create_model("resnet_mini").to(memory_format=torch.channels_last)
    back = load(weight_bytes(model.state_dict()))
    assert back.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(back[name], tensor), name
        assert back[name].dtype == tensor.dtype


def test_shared_tensors_are_written() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    back = load(weight_bytes(model.state_dict()))
    assert torch.equal(back["0.weight"], back["1.weight"])


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadWeights, match="no weights at"):
        read_weights(tmp_path / "model.safetensors")


@pytest.mark.parametrize("kept", [0, 5, 1000])
def test_truncated_file(saved: Path, kept: int) -> None:
    saved.write_bytes(saved.read_bytes()[:kept])
    with pytest.raises(BadWeights, match="damaged or no safetensors"):
        read_weights(saved)


def test_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    path = tmp_path / "model.safetensors"
    torch.save({"weight": Harmful()}, path)
    with pytest.raises(BadWeights, match="damaged or no safetensors"):
        read_weights(path)
    assert not (tmp_path / "ran").exists()


def test_message_lists_what_does_not_fit(saved: Path) -> None:
    weights = read_weights(saved)
    weights["extra.bias"] = torch.zeros(3)
    del weights["cls_token"]
    model = create_model("vit_mini", depth=1, num_classes=4)
    before = model.head.bias.clone()
    with pytest.raises(BadWeights) as caught:
        load_weights(model, weights, "a.safetensors")
    text = str(caught.value)
    assert "1 missing: cls_token" in text
    assert "1 unexpected: extra.bias" in text
    assert "2 of another shape: head.weight (file (10, 96), model (4, 96))" in text
    assert "\n" not in text
    assert torch.equal(model.head.bias, before)


def test_long_lists_are_cut() -> None:
    own = {f"w{i}": torch.zeros(1) for i in range(9)}
    assert difference(own, {}) == "9 missing: w0, w1, w2, w3 and 5 more"
    assert difference(own, own) == ""
