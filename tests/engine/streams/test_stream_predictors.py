import numpy as np
import torch
from torch import nn

import vitscope as vs
from tests.exams.moving_pictures import smoothed_by_hand
from vitscope.engine.features.random_network import random_network
from vitscope.engine.prediction.pass_sources import RandomPasses
from vitscope.engine.streams.sequence_scorer import log_mean, predictors, smoothed_frames, without_memory
from vitscope.surgery.temporal import TemporalSmoothing

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
    assert without_memory(small_vit) == (small_vit, None)
    vs.surgery.temporal(small_vit, rate=0.5, previous=4)
    plain, smoothing = without_memory(small_vit)
    assert smoothing is not None
    assert (smoothing.rate, smoothing.previous) == (0.5, 4)
    for _ in range(2):
        torch.testing.assert_close(plain(FRAMES), said)
