"""Images alone, as one tensor or array, for the exams that need no labels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import vitscope as vs
from vitscope.core.errors import BadData
from vitscope.exams import find_exams

NEED_NONE = "fourier variance effective_rank cka attention softmax_gradient low_pass token_norms".split()
NEED_NONE += "maps uncertainty covariance".split()
NEED_SOME = "prediction lesion hessian landscape passes corruption noise occlusion adversarial".split()


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return vs.create_model("vit_mini", depth=2).eval()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(9, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("exam", NEED_NONE)
def test_the_same_as_with_labels(exam: str, model: torch.nn.Module, images: torch.Tensor) -> None:
    alone = vs.diagnose(model, images, [exam], batch_size=5)[exam]
    labelled = vs.diagnose(model, (images, torch.arange(9)), [exam], batch_size=5)[exam]
    assert alone.table().equals(labelled.table())
    assert (alone.n, alone.data) == (labelled.n, labelled.data)
    if exam != "maps":  # shows pictures, and has nothing that could be subtracted
        assert alone.images_digest != labelled.images_digest != ""


@pytest.mark.parametrize("exam", NEED_SOME)
def test_labels_are_asked_for(exam: str, model: torch.nn.Module, images: torch.Tensor) -> None:
    with pytest.raises(BadData, match=r"without labels, which this needs; give a pair \(images, labels\)"):
        vs.diagnose(model, images, [exam], limit=4)


def test_arrays_and_data_sets_of_images_alone(model: torch.nn.Module, images: torch.Tensor) -> None:
    expected = vs.exams.variance(model, images).table()
    assert vs.exams.variance(model, TensorDataset(images)).table().equals(expected)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    by_pair = vs.exams.variance(model, (pixels, np.arange(6)))
    assert vs.exams.variance(model, pixels).table().equals(by_pair.table())
    assert vs.exams.variance(model, images, limit=4).n == 4
    with pytest.raises(BadData, match="expected float"):
        vs.exams.variance(model, images[0])


def test_a_diagnosis_takes_what_needs_no_labels(
    model: torch.nn.Module, images: torch.Tensor, tmp_path: Path
) -> None:
    found = vs.diagnose(model, images)
    unasked = {exam.result.exam for exam in find_exams()}
    assert set(found) == unasked - {"prediction", "segmentation", "detection", "answers"}
    vs.diagnose(model, images, ["variance", "cka"], out=tmp_path)
    assert vs.report(tmp_path, tmp_path / "page.html").stat().st_size > 1000
