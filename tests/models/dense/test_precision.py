"""Dense models in half precision, compiled, and with random passes: examined, or refused in words."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

import vitscope as vs
from tests.exams.every_exam import masked
from tests.exams.task_cases import detector, squares, vilt
from vitscope.core.errors import UnsupportedModel


def segmenter() -> Any:
    torch.manual_seed(0)
    return vs.create_model("upernet:vit_mini", num_classes=3, img_size=32, channels=8, depth=4).eval()


def test_pixels_and_answers_in_half_precision() -> None:
    for model, data, exam in (
        (segmenter(), masked(6), "segmentation"),
        (vilt().float(), squares("vqa", 6), "answers"),
    ):
        whole = vs.diagnose(model, data, [exam])[exam]
        half = vs.diagnose(copy.deepcopy(model).to(torch.bfloat16), data, [exam])[exam]
        np.testing.assert_allclose(half.value, whole.value, atol=0.05)  # type: ignore[attr-defined]


def test_boxes_in_half_precision_are_refused() -> None:
    model = detector().to(torch.bfloat16)
    for exam in ("detection", "noise", "fourier"):
        with pytest.raises(UnsupportedModel, match=r"detector is in bfloat16.*give model\.float\(\)"):
            vs.diagnose(model, squares("detection", 4), [exam])


@pytest.mark.parametrize("make", [segmenter, detector, vilt])
def test_what_was_compiled_is_to_be_given_as_it_was(make: Any) -> None:
    compiled: Any = torch.compile(make(), backend="eager")
    with pytest.raises(UnsupportedModel, match=r"pass what it wraps: model\._orig_mod"):
        vs.diagnose(compiled, masked(4), ["fourier"])
