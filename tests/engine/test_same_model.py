"""A run folder holds exams of one model."""

from pathlib import Path

import pytest
import torch
from torch import nn

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData
from vitscope.models import save_model
from vitscope.results import Run


@pytest.fixture
def examined(small_vit: nn.Module, fashion: ImageData, tmp_path: Path) -> Path:
    vs.diagnose(small_vit, fashion, ["variance", "fourier"], limit=10, out=tmp_path / "run", name="first")
    return tmp_path / "run"


def exams_of(folder: Path) -> dict[str, str]:
    return {name: result.model for name, result in Run.open(folder).results().items()}


def test_exams_of_another_model_do_not_go_beside_them(
    examined: Path, small_vit: nn.Module, fashion: ImageData
) -> None:
    small_vit.get_parameter("head.weight").data.add_(0.1)
    with pytest.raises(
        VitscopeError, match=r"holds exams of another model \(first: fourier\).*another --out"
    ):
        vs.diagnose(small_vit, fashion, ["variance"], limit=10, out=examined, name="second")
    assert exams_of(examined) == {"fourier": "first", "variance": "first"}
    assert Run.open(examined).model["name"] == "first"


def test_nor_of_the_same_weights_after_an_operation(
    examined: Path, small_vit: nn.Module, fashion: ImageData
) -> None:
    vs.surgery.broadcast_context(small_vit, kind="cb", layers="all")
    with pytest.raises(VitscopeError, match="holds exams of another model"):
        vs.diagnose(small_vit, fashion, ["prediction"], limit=10, out=examined)


def test_where_none_would_stay_they_are_replaced(
    examined: Path, small_vit: nn.Module, fashion: ImageData
) -> None:
    small_vit.get_parameter("head.weight").data.add_(0.1)
    vs.diagnose(small_vit, fashion, ["variance", "fourier"], limit=10, out=examined, name="second")
    assert exams_of(examined) == {"fourier": "second", "variance": "second"}


def test_the_same_model_adds_to_them(examined: Path, small_vit: nn.Module, fashion: ImageData) -> None:
    vs.diagnose(small_vit, fashion, ["prediction"], limit=20, out=examined, name="first")
    assert set(exams_of(examined)) == {"fourier", "variance", "prediction"}


def test_an_operated_model_adds_to_its_own(fashion: ImageData, tmp_path: Path) -> None:
    for exam in ("variance", "fourier"):
        torch.manual_seed(0)
        model = vs.create_model("alternet_mini", blocks=(1, 1, 2, 2), msa=(0, 0, 0, 0))
        vs.surgery.alternate(model, msa=(0, 0, 0, 1), heads=(1, 1, 1, 1), window=2)
        vs.diagnose(model, fashion, [exam], limit=4, out=tmp_path / "run")
    assert set(exams_of(tmp_path / "run")) == {"fourier", "variance"}


def test_exams_of_earlier_weights_in_a_models_own_folder_are_named(
    small_vit: nn.Module, fashion: ImageData, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    save_model(vs.create_model("resnet_mini"), tmp_path)
    vs.diagnose(vs.create_model(tmp_path), fashion, ["variance", "fourier"], limit=10, out=tmp_path)
    save_model(vs.create_model("resnet_mini"), tmp_path)
    with pytest.warns(
        UserWarning, match=rf"fourier in {tmp_path} is of the weights that it held before; do that"
    ):
        vs.diagnose(vs.create_model(tmp_path), fashion, ["variance"], limit=10, out=tmp_path)
