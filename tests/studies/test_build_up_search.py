import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from vitscope.core.errors import BadResult
from vitscope.core.statistics import share_interval
from vitscope.studies.build_up_search import (
    BuildUp,
    Position,
    Step,
    interval_of_mean,
    interval_of_scores,
    per_image,
    upcoming,
)


def walk(room, budget, improves) -> list[tuple[tuple[int, ...], bool]]:
    """The candidates that are tried and whether they are kept, if `improves(counts)` decides."""
    position = Position(room, budget, (0,) * len(room), len(room) - 1)
    tried = []
    while position.proposal is not None:
        counts = position.proposal[1]
        tried.append((counts, improves(counts)))
        position = position.after(improves(counts))
    return tried


def test_what_the_paper_found():
    """Two MSAs in the last stage, one in the third where a second harms, one in the second: 0, 1, 1, 2."""
    assert walk((1, 2, 3, 2), 4, lambda counts: counts[2] < 2) == [
        ((0, 0, 0, 1), True),
        ((0, 0, 0, 2), True),
        ((0, 0, 1, 2), True),
        ((0, 0, 2, 2), False),
        ((0, 1, 1, 2), True),
    ]


def test_all_improve_goes_alternately_from_the_end():
    tried = walk((1, 2, 3, 2), 99, lambda counts: True)
    assert [counts for counts, _ in tried] == [
        (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 1, 2), (0, 0, 2, 2), (0, 0, 3, 2), (0, 1, 3, 2), (0, 2, 3, 2), (1, 2, 3, 2),
    ]  # fmt: skip


def test_none_improves_tries_the_end_of_every_stage():
    tried = walk((1, 0, 3, 2), 4, lambda counts: False)
    assert [counts for counts, _ in tried] == [(0, 0, 0, 1), (0, 0, 1, 0), (1, 0, 0, 0)]


@pytest.mark.parametrize("budget", [1, 3, 6])
def test_whatever_happens_it_ends_within_the_budget_and_tries_nothing_twice(budget):
    room = (1, 2, 2)
    for answers in itertools.product([True, False], repeat=6):
        verdicts = iter(answers)
        position = Position(room, budget, (0, 0, 0), 2)
        tried = []
        while position.proposal is not None:
            tried.append(position.proposal[1])
            position = position.after(next(verdicts))
        assert len(set(tried)) == len(tried)
        assert sum(position.kept) <= budget
        assert all(count <= most for count, most in zip(position.kept, room, strict=True))


def test_upcoming_is_the_proposal_its_fall_back_then_what_follows():
    position = Position((1, 1, 1, 2), 4, (0, 0, 0, 0), 3)
    assert upcoming(position, 1) == [(0, 0, 0, 1)]
    assert upcoming(position, 2) == [(0, 0, 0, 1), (0, 0, 1, 0)]
    assert upcoming(position, 4) == [(0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 0, 2), (0, 1, 0, 0)]
    assert upcoming(Position((1, 1), 1, (0, 1), 1), 3) == []


def test_what_is_decided_next_was_always_begun_on_speculation():
    """Whichever way a decision goes, of three that are under way one is the next."""
    position = Position((1, 2, 3, 2), 6, (0, 0, 0, 0), 3)
    while position.proposal is not None:
        begun = upcoming(position, 3)
        for improved in (True, False):
            following = position.after(improved).proposal
            assert following is None or following[1] in begun
        position = position.after(sum(position.kept) % 2 == 0)


NONE = Step(0, None, None, (0, 0), 0.5, 0.4, 0.6, *(math.nan,) * 3, True, 100, 1000, 1.5)
KEPT = Step(1, 2, "layer2.1", (0, 1), 0.6, 0.5, 0.7, 0.1, 0.04, 0.16, True, 100, 1100, 2.5)
WORSE = Step(2, 1, "layer1.1", (1, 1), 0.55, 0.45, 0.65, -0.05, -0.1, 0.0, False, 100, 1200, 3.5)


def test_saves_and_loads_without_loss(tmp_path):
    table = BuildUp((NONE, KEPT, WORSE), 4, 0.01, True, complete=False)
    table.save(tmp_path)
    again = BuildUp.load(tmp_path)
    assert [dataclasses.astuple(s)[:7] for s in again.steps] == [
        dataclasses.astuple(s)[:7] for s in table.steps
    ]
    pd.testing.assert_frame_equal(again.table(), table.table())
    assert dataclasses.replace(again, steps=()) == dataclasses.replace(table, steps=())
    csv = pd.read_csv(tmp_path / "build_up.csv")
    assert csv["msa"].tolist() == ["0-0", "0-1", "1-1"]
    assert csv["difference"].tolist()[1:] == [0.1, -0.05]


def test_best_is_what_was_kept_last():
    table = BuildUp((NONE, KEPT, WORSE), 4, 0.0, False, complete=True)
    assert table.best is KEPT
    assert table.msa == (0, 1)


def test_damage_is_noticed(tmp_path):
    with pytest.raises(BadResult, match="no build-up search"):
        BuildUp.load(tmp_path)
    BuildUp((NONE,), 4, 0.0, False, complete=True).save(tmp_path)
    text = (tmp_path / "build_up.json").read_text()
    (tmp_path / "build_up.json").write_text(text.replace('"score"', '"points"'))
    with pytest.raises(BadResult, match="lacks score"):
        BuildUp.load(tmp_path)


def test_mean_interval_against_the_closed_form():
    """30 of 100 differ by one: mean 0.3, variance 0.3 x 0.7 x 100/99."""
    values = np.array([1.0] * 30 + [0.0] * 70)
    half = scipy.stats.t.ppf(0.975, 99) * math.sqrt(0.3 * 0.7 / 99)
    assert interval_of_mean(values) == pytest.approx((0.3, 0.3 - half, 0.3 + half))
    mean, low, high = interval_of_mean(np.array([2.0]))
    assert mean == 2.0
    assert math.isnan(low)
    assert math.isnan(high)


def test_its_interval_holds_the_truth_19_times_of_20():
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(4000):
        _, low, high = interval_of_mean(generator.normal(0.1, 1.0, size=80))
        held += low <= 0.1 <= high
    assert 0.935 < held / 4000 < 0.96


@pytest.mark.parametrize("right", [0, 1, 40, 99, 100])
def test_shares_have_wilsons_interval(right):
    values = np.array([1.0] * right + [0.0] * (100 - right))
    assert interval_of_scores(values) == pytest.approx(
        (right / 100, *map(float, share_interval(right, 100))), abs=1e-6
    )


def test_other_scores_have_students():
    values = np.array([0.0, 0.5, 1.0])
    assert interval_of_scores(values) == interval_of_mean(values)


@pytest.mark.parametrize("measured", [[], [[1.0, 2.0]], [1.0, math.nan]])
def test_measurements_that_cannot_be_compared(measured):
    with pytest.raises(BadResult, match="expected one number per image"):
        per_image(measured)
    with pytest.raises(BadResult, match="3 numbers for this candidate and 2 for the one before"):
        per_image([1, 0, 1], like=np.zeros(2))
