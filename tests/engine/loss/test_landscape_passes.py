import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.exams.landscape_cases import convolutional, images, linear
from vitscope.core.errors import BadData
from vitscope.curvature.plane import Plane
from vitscope.engine.finished_parts import Parts
from vitscope.engine.loss.landscape_passes import HeldLoss, summarise, visit


def held(limit: int | None, batch_size: int, data=None) -> HeldLoss:
    return HeldLoss(linear(), data or images(), limit, batch_size, None, "kept", 0)


def test_as_many_whole_batches_as_there_are() -> None:
    sizes = {(None, 4): [4, 4, 4], (10, 4): [4, 4], (3, 4): [3], (None, 128): [12], (50, 5): [5, 5]}
    for (limit, batch_size), expected in sizes.items():
        loss = held(limit, batch_size)
        assert [len(batch.images) for batch in loss.batches] == expected
        assert loss.n == sum(expected)
    loader = DataLoader(TensorDataset(images()[0].float(), images()[1]), batch_size=3)
    assert [len(batch.images) for batch in held(7, 128, loader).batches] == [7]
    assert [len(batch.images) for batch in held(None, 5, loader).batches] == [5, 5]


def test_a_limit_has_the_class_shares_of_the_whole() -> None:
    pictures, labels = (
        images()[0].repeat(5, 1, 1, 1),
        torch.arange(3).repeat_interleave(20),
    )  # sorted by class
    loss = held(12, 6, (pictures, labels))
    seen = [batch.targets for batch in loss.batches]
    assert torch.bincount(torch.cat(seen)).tolist() == [4, 4, 4]
    assert all(len(targets.unique()) > 1 for targets in seen)


def test_nll_of_every_image_and_whether_it_is_right() -> None:
    model, (pictures, labels) = linear(), images()
    nll, right = held(None, 5)()
    with torch.no_grad():
        logits = model(pictures)[:10]
    found = {round(v, 9) for v in nll.tolist()}
    every = torch.nn.functional.cross_entropy(model(pictures), labels, reduction="none")
    assert found <= {round(v, 9) for v in every.tolist()}
    assert nll.dtype == torch.float64
    assert len(nll) == len(right) == len(logits)
    assert not right[nll > np.log(3)].any()  # less likely than one in three


def test_labels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadData, match="7"):
        held(None, 4, (images()[0], torch.full((12,), 7)))


def test_places_are_visited_once() -> None:
    model = convolutional()
    loss = HeldLoss(model, images(), None, 6, None, "kept", 0)
    directions = [[torch.ones_like(model[7].bias)]]
    with loss.arranged("contiguous", Parts.nowhere()), Plane([model[7].bias], directions) as plane:
        nll, _ = loss()
        scores = visit(loss, plane, [(0.0,), (5.0,)], lambda _: nll, Parts.nowhere(), "test")
    found = summarise(scores.finish()["sums"], loss.n)
    np.testing.assert_allclose(
        found["rise"], [0.0, 0.0], atol=1e-12
    )  # a common shift of scores changes nothing
    assert found["nll"][0] == pytest.approx(nll.mean().item())
