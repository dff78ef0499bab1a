import numpy as np
import torch
from torch import nn

import vitscope as vs
from tests.exams.moving_pictures import known_table, smoothed_by_hand
from vitscope.engine.frame_scores import FrameScores
from vitscope.engine.pass_scores import Stopwatch
from vitscope.engine.random_passes import RandomPasses, random_network, without_grafts
from vitscope.engine.sequence_scorer import (
    Predictor,
    SequenceScorer,
    log_mean,
    predictors,
    smoothed_frames,
)
from vitscope.surgery.temporal import TemporalSmoothing

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


FRAMES = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_the_mean_is_one_of_probabilities() -> None:
    logits = torch.randn(5, 3, 4, dtype=torch.float64)
    found = log_mean(one.log_softmax(1) for one in logits)
    torch.testing.assert_close(found.exp(), logits.softmax(2).mean(0))


@torch.no_grad()
def test_every_frame_is_drawn_a_network_of_its_own_whatever_the_pieces(small_vit: nn.Module) -> None:
    small_vit.eval()
    source = RandomPasses(small_vit, random_network(small_vit, None, FRAMES, 0.3, 0), seed=0)
    ways = {way.name: way.predict for way in predictors(source, 2, lambda logits: logits, None)}
    assert list(ways) == ["one pass", "mc dropout", "one draw"]
    whole = ways["one draw"](FRAMES, 10)
    pieces = torch.cat([ways["one draw"](FRAMES[:1], 10), ways["one draw"](FRAMES[1:], 11)])
    torch.testing.assert_close(whole, pieces)
    same = ways["one draw"](FRAMES[:1].expand(4, -1, -1, -1), 10)
    assert (same[0] != same[1:]).any(1).all()
    expected = torch.stack([log.softmax(1) for log in source.passes(FRAMES, 10, 2)]).mean(0)
    torch.testing.assert_close(ways["mc dropout"](FRAMES, 10).exp(), expected)
    torch.testing.assert_close(ways["one pass"](FRAMES, 10).exp(), small_vit(FRAMES).softmax(1))


def test_smoothing_goes_on_over_pieces() -> None:
    q = torch.randn(9, 5, dtype=torch.float64).softmax(1)
    smoothing = TemporalSmoothing(0.8, 3).eval()
    found = torch.cat([smoothed_frames(smoothing, piece) for piece in q.log().split(4)])
    np.testing.assert_allclose(found.exp(), smoothed_by_hand(q.numpy(), 0.8, 3), rtol=1e-9)


@torch.no_grad()
def test_a_model_without_what_it_remembers(small_vit: nn.Module) -> None:
    small_vit.eval()
    said = small_vit(FRAMES)
    assert without_grafts(small_vit, TemporalSmoothing) == (small_vit, None)
    vs.surgery.temporal(small_vit, rate=0.5, previous=4)
    plain, smoothing = without_grafts(small_vit, TemporalSmoothing)
    assert smoothing is not None
    assert (smoothing.rate, smoothing.previous) == (0.5, 4)
    for _ in range(2):
        torch.testing.assert_close(plain(FRAMES), said)
