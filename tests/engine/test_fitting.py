"""Exams that the data or the model cannot serve: left out, refused, or said to have nothing to show."""

import warnings

import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.every_exam import images, small_vit
from vitscope.engine.exam import EXAMS, find_exams
from vitscope.engine.fitting import fitting

OF_MODELS = ("cka", "attention", "softmax_gradient", "low_pass", "maps", "cb_scale", "lesion", "trajectory")


def plain_cnn() -> nn.Module:
    """Without attention, without a shortcut, and with the same answer to every image."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    torch.nn.init.zeros_(model[-1].weight)
    model.pretrained_cfg = {"input_size": (3, 32, 32), "mean": (0.5,) * 3, "std": (0.5,) * 3}  # type: ignore[assignment]
    return model.eval()


@pytest.mark.parametrize("exam", [*OF_MODELS, "shape_bias"])
def test_an_exam_that_was_named_and_has_nothing_to_show_says_what_it_needs(exam: str) -> None:
    needs = EXAMS[exam].result.needs
    assert not needs.startswith("other data")
    with pytest.warns(UserWarning, match=f"^{exam} has nothing to show of .*: it needs") as told:
        vs.diagnose(plain_cnn(), images(), [exam], batch_size=4)
    assert [str(one.message).endswith(needs) for one in told] == [True]
    assert [one.filename for one in told] == [__file__]  # the user's line, not one of ours


def test_nothing_is_said_of_exams_that_nobody_has_named() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vs.diagnose(plain_cnn(), images(), batch_size=4)
        vs.diagnose(small_vit(), images(), ["attention"], batch_size=4)


def test_exams_about_streams_are_left_out_with_a_reason_unless_they_were_named() -> None:
    every = find_exams(None, purpose="evaluation")
    with pytest.warns(
        UserWarning, match=r"temporal is left out: it needs a stream of frames \(--data frames:PATH\)"
    ):
        kept = [exam.result.exam for exam in fitting(every, ["all"], images())]
    assert kept == [exam.result.exam for exam in every if exam.result.exam != "temporal"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [exam.result.exam for exam in fitting(every, None, images())] == kept  # nobody asked for it
