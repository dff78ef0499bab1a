"""Scores of frames: blocks, flips and masks by hand."""

import numpy as np
import pytest
import torch

from vitscope.core.bootstrap import mean_interval_of_few
from vitscope.engine.condition_scores import COLUMNS, ConditionScores, score_columns
from vitscope.engine.conditions import replicates
from vitscope.engine.frame_scores import FrameScores, blocks_of, frame_columns, true_probability, unchanged
from vitscope.exams.prediction.prediction import BINS
from vitscope.findings.temporal import QUANTITIES


def test_blocks_are_sequences_if_there_are_enough_of_them_else_pieces() -> None:
    blocks, size = blocks_of([60, 10])
    assert size == 25
    assert [own.tolist() for own in blocks] == [[0] * 25 + [1] * 25 + [2] * 10, [3] * 10]
    blocks, size = blocks_of([3] * 20)
    assert (size, [own.tolist() for own in blocks][:2]) == (0, [[0] * 3, [1] * 3])
    assert [own.tolist() for own in blocks_of([4, 3], 2)[0]] == [[0, 0, 1, 1], [2, 2, 3]]
    assert [own.tolist() for own in blocks_of([4, 3], 0)[0]] == [[0] * 4, [1] * 3]


def test_flips_are_counted_by_hand() -> None:
    classes = torch.tensor([2, 2, 1, 1])
    assert unchanged(classes, None).tolist() == [[0, 0], [1, 1], [1, 0], [1, 1]]
    assert unchanged(classes, torch.tensor(2)).tolist()[0] == [1, 1]
    assert unchanged(classes, torch.tensor(0)).tolist()[0] == [1, 0]
    maps = torch.tensor([[[0, 1], [1, 255]], [[0, 0], [1, 1]], [[0, 0], [255, 1]]])
    assert unchanged(maps, None).tolist() == [[0, 0], [4, 2], [4, 3]]
    assert unchanged(maps, None, ignored=255).tolist() == [[0, 0], [3, 2], [3, 3]]


def test_points_of_a_frame_are_added_up_without_those_that_are_not_labelled() -> None:
    generator = torch.Generator().manual_seed(0)
    log_p = torch.randn(3, 4, 5, 6, generator=generator).log_softmax(1)
    labels = torch.randint(0, 4, (3, 5, 6), generator=generator)
    labels[1, 2:] = 255
    labels[2] = 255
    found = frame_columns(log_p, labels, 0)
    for frame in range(3):
        known = labels[frame] != 255
        points = log_p[frame].permute(1, 2, 0)[known]
        expected = score_columns(points, labels[frame][known]).sum(0) if known.any() else torch.zeros(COLUMNS)
        np.testing.assert_allclose(found[frame, :COLUMNS], expected, rtol=1e-12)
        assert found[frame, COLUMNS : COLUMNS + BINS].sum() == known.sum()  # each point is in one bin
        assert found[frame, COLUMNS + BINS :].sum() == expected[1]  # the right ones
        mean = log_p[frame].exp().gather(0, labels[frame].clamp_max(3)[None])[0][known].double().mean()
        np.testing.assert_allclose(true_probability(log_p, labels)[frame], mean, rtol=1e-6)
    labels_of_frames = torch.tensor([0, 3, 1])
    np.testing.assert_allclose(
        frame_columns(log_p[..., 0, 0], labels_of_frames, 0)[:, :COLUMNS],
        score_columns(log_p[..., 0, 0], labels_of_frames),
    )


def test_frames_that_are_alike_do_not_narrow_an_interval() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(12, 5, generator=generator), torch.randint(0, 5, (12,), generator=generator)
    single = ConditionScores(seed=7)
    single.update(logits, labels, torch.arange(12))
    often = FrameScores(conditions=2, traced=1, blocks=12, seed=7)
    repeated = frame_columns(logits.repeat_interleave(30, 0), labels.repeat_interleave(30), 0)
    columns = torch.cat([repeated, torch.ones(360, 2)], 1)
    blocks = np.repeat(np.arange(12), 30)
    for start in range(0, 360, 100):  # pieces that cut blocks in two
        piece = columns[start : start + 100]
        often.update(
            torch.stack([piece, piece]),
            torch.ones(len(piece), 2, dtype=torch.float64),
            blocks[start : start + 100],
        )
    drawn = replicates(single.finish()["sums"])
    found = often.finish()
    np.testing.assert_allclose(found["value"][0, :-1], drawn[0], rtol=1e-9)
    low, high = mean_interval_of_few(drawn[1:], 12)
    np.testing.assert_allclose(found["low"][0, 2:5], low[2:5], rtol=1e-9)
    np.testing.assert_allclose(found["high"][0, 2:5], high[2:5], rtol=1e-9)
    assert found["value"][0, 1] == found["value"][0, -1] == 1.0  # 5 classes: all are among the best 5
    for at in (1, -1):  # 360 times in 12 blocks
        assert found["low"][0, at] == pytest.approx(12 / (12 + 1.959964**2), rel=1e-6)
        assert found["high"][0, at] == 1.0
    np.testing.assert_allclose(found["change"].value[1], 0.0, atol=1e-12)
    np.testing.assert_allclose(found["ratio"].high[1, :4], 1.0)
    assert np.isnan(found["ratio"].value[0]).all()
    assert found["n"] == 360


@pytest.mark.filterwarnings("error")
def test_too_few_blocks_have_no_interval() -> None:
    scores = FrameScores(conditions=2, traced=0, blocks=2, seed=0)
    columns = torch.cat(
        [frame_columns(torch.randn(8, 3), torch.zeros(8, dtype=torch.long), 0), torch.ones(8, 2)], 1
    )
    scores.update(torch.stack([columns, columns]), torch.ones(8, 2, dtype=torch.float64), np.arange(8) // 4)
    scores.time(torch.tensor([1.0, 2.0], dtype=torch.float64))
    found = scores.finish()
    assert np.isfinite(found["value"]).all()
    assert np.isnan([found["low"], found["high"]]).all()
    assert found["value"].shape == (2, len(QUANTITIES))
    np.testing.assert_allclose(found["throughput"][:, 0], [1.0, 0.5])
