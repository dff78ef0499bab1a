"""States of torch in which numbers cannot be had: inference mode, the meta device, scores that are no floats."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.core.errors import UnsupportedModel
from vitscope.core.outputs import NoClassScores

PAIR = (torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(8))
LITTLE: dict[str, Any] = {"batches": 1, "k": 1, "max_products": 6, "batch_size": 8}


def small() -> nn.Module:
    return vs.create_model("vit_mini", pretrained=True)


class Says(nn.Module):
    def __init__(self, what: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.what = small(), what

    def forward(self, images: Tensor) -> Tensor:
        return self.what(self.body(images))


@pytest.mark.parametrize("exam", [["prediction"], ["variance"], ["hessian"]], ids=str)
def test_a_model_made_under_inference_mode_is_refused_outside(exam: list[str]) -> None:
    with torch.inference_mode():
        model = small()
    with pytest.raises(UnsupportedModel, match=r"made under torch\.inference_mode.*; make it outside"):
        vs.diagnose(model, PAIR, exam)


def test_inside_it_is_examined_but_for_its_gradients() -> None:
    with torch.inference_mode():
        model = small()
        assert "prediction" in vs.diagnose(model, PAIR, ["prediction"])
        with pytest.raises(UnsupportedModel, match=r"made under torch\.inference_mode"):
            vs.exams.hessian(model, PAIR, **LITTLE)


def test_inference_mode_around_exams_changes_nothing() -> None:
    model = small()
    outside = vs.exams.hessian(model, PAIR, **LITTLE)
    with torch.inference_mode():
        inside = vs.exams.hessian(model, (PAIR[0].clone(), PAIR[1]), **LITTLE)
        assert torch.is_inference_mode_enabled()
    assert inside.table().equals(outside.table())


@pytest.mark.parametrize("exam", [vs.exams.prediction, vs.exams.variance, vs.exams.hessian])
def test_weights_without_values_are_refused(exam: Any) -> None:
    with torch.device("meta"):
        model = vs.create_model("vit_mini", pretrained=False)
    options = LITTLE if exam is vs.exams.hessian else {}
    with pytest.raises(UnsupportedModel, match=r"meta device\).*; build it on a real device"):
        exam(model, PAIR, **options)


@pytest.mark.parametrize("kind", [torch.bool, torch.complex64, torch.int64], ids=str)
def test_scores_that_are_no_floats_are_refused(kind: torch.dtype) -> None:
    model = Says(lambda scores: scores.to(kind))
    for exam, options in ((vs.exams.prediction, {}), (vs.exams.hessian, LITTLE)):
        with pytest.raises(
            NoClassScores, match=rf"returns \dx10 of {kind}; expected class scores in floating"
        ):
            exam(model, PAIR, **options)
