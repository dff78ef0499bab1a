import numpy as np
import torch

from tests.exams.moving_pictures import known_table, smoothed_by_hand
from vitscope.engine.streams.frame_scores import FrameScores
from vitscope.engine.streams.sequence_scorer import Predictor, SequenceScorer
from vitscope.engine.throughput import Stopwatch

LEVELS = torch.tensor([4, 9, 9, 2, 17, 4, 0])
LABELS = torch.tensor([0, 1, 1, 2, 3, 0, 0])


def spoken(frames: torch.Tensor, first: int) -> torch.Tensor:
    return known_table()[frames[:, 0, 0, 0].long()].log_softmax(1)


def scorer() -> tuple[SequenceScorer, FrameScores]:
    scores = FrameScores(conditions=2, traced=5, blocks=9, seed=0)
    return SequenceScorer([Predictor("one pass", False, spoken)], 0.8, 5, scores), scores


def test_a_sequence_in_pieces_and_nothing_of_it_in_the_next() -> None:
    frames = LEVELS[:, None, None, None].expand(-1, 1, 4, 4)
    taken, scores = scorer()
    q = known_table()[LEVELS].double().softmax(1).numpy()
    for traced in (True, False):  # the same twice
        taken.begin(traced)
        for piece in (slice(0, 3), slice(3, 7)):
            taken.take(frames[piece], LABELS[piece], 0, np.zeros(7, np.int64)[piece])
    found = scores.finish()
    for row, p in enumerate((q, smoothed_by_hand(q, 0.8, 5))):
        assert found["value"][row, 0] == (p.argmax(1) == LABELS.numpy()).mean()
        np.testing.assert_allclose(found["value"][row, 2], -np.log(p[np.arange(7), LABELS]).mean(), rtol=1e-5)
        np.testing.assert_allclose(found["trace"][row], p[np.arange(5), LABELS[:5]], rtol=1e-5)
        assert found["value"][row, -1] == (p.argmax(1)[1:] == p.argmax(1)[:-1]).mean()
    assert found["n"] == 14
    assert found["labels"][0] == 2 / 6


def test_times_are_of_single_frames_and_the_first_one_warms_up() -> None:
    taken, scores = scorer()
    shapes = []

    def seen(frames: torch.Tensor, first: int) -> torch.Tensor:
        shapes.append((tuple(frames.shape), first))
        return spoken(frames, first)

    taken._ways = [Predictor("one pass", False, seen)]
    taken.time(LEVELS[:3, None, None, None].expand(-1, 1, 4, 4), 20, Stopwatch(torch.device("cpu")))
    assert shapes == [((1, 1, 4, 4), place) for place in (20, 20, 21, 21, 22, 22)]
    assert int(scores.timed) == 2
    assert (scores.seconds > 0).all()
