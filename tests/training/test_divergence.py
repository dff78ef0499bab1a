"""How many steps without a number a training bears, and what it says then."""

import math

import pytest

from vitscope.data import load_data
from vitscope.training.checkpoint import Progress
from vitscope.training.divergence import Patience, TrainingDiverged

PLACE = Progress(epoch=2, step=6)


def test_steps_in_a_row_count() -> None:
    patience = Patience(2, range(9))
    assert not patience.watch(math.nan, 1.0, False, [0], PLACE)
    assert patience.watch(1.0, 1.0, False, [0], PLACE)
    assert not patience.watch(1.0, math.inf, False, [0], PLACE)
    with pytest.raises(TrainingDiverged):
        patience.watch(math.nan, math.nan, False, [0], PLACE)
    assert patience.skipped == 3


def test_too_large_a_scale_is_excused_and_a_loss_that_is_no_number_is_not() -> None:
    patience = Patience(1, range(9))
    for _ in range(5):
        assert not patience.watch(1.0, math.inf, True, [0], PLACE)
    with pytest.raises(TrainingDiverged):
        patience.watch(math.inf, math.inf, True, [0], PLACE)


def test_message_names_place_norm_and_images() -> None:
    data = load_data("fashion", split="train")
    with pytest.raises(TrainingDiverged) as caught:
        Patience(1, data).watch(math.nan, math.inf, False, list(range(20, 30)), PLACE)
    text = str(caught.value)
    assert "the loss is nan in epoch 3, step 7, and its gradient's norm inf" in text
    assert data.name(20) in text
    assert data.name(27) in text
    assert data.name(28) not in text
    assert text.endswith("and 2 more")
    assert "\n" not in text
