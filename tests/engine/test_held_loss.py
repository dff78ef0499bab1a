import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.exams.landscape_cases import convolutional, images, linear
from vitscope.core.bootstrap import of_few
from vitscope.core.errors import BadData
from vitscope.core.statistics import score_interval
from vitscope.curvature.plane import Plane
from vitscope.engine.exam import Rows
from vitscope.engine.held_loss import COLUMNS, HeldLoss, Scores, score, summarise, visit
from vitscope.engine.resuming import PartialResults


def held(limit: int | None, batch_size: int, data=None) -> HeldLoss:
    return HeldLoss(linear(), data or images(), limit, batch_size, None, "kept", 0)


def test_every_image_is_taken_the_last_batch_may_be_short() -> None:
    sizes = {(None, 4): [4, 4, 4], (10, 4): [4, 4, 2], (3, 4): [3], (None, 128): [12], (50, 5): [5, 5, 2]}
    for (limit, batch_size), expected in sizes.items():
        loss = held(limit, batch_size)
        assert [len(batch.images) for batch in loss.batches] == expected
        assert [len(batch) for batch in loss.batches] == expected
        assert loss.n == sum(expected)
    loader = DataLoader(TensorDataset(images()[0].float(), images()[1]), batch_size=3)
    assert [len(batch.images) for batch in held(7, 128, loader).batches] == [7]
    assert [len(batch.images) for batch in held(None, 5, loader).batches] == [5, 5, 2]


@pytest.mark.parametrize("limit", [None, 11, 7])
def test_how_images_are_put_together_does_not_change_what_is_measured(limit: int | None) -> None:
    whole = held(limit, 12)().nll
    for size in (1, 4, 5, 6):
        found = held(limit, size)().nll
        torch.testing.assert_close(found.sort().values, whole.sort().values)


def test_statistics_are_those_of_all_images_that_have_a_spread() -> None:
    """Weighed by images; one that is alone in the last batch would have no variance over a map of one point."""
    for batch_size, counts in ((5, (5, 5, 2)), (11, (11,)), (12, (12,))):
        pictures, labels = images()
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 4), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 3)
        )
        loss = HeldLoss(model.double().eval(), (pictures, labels), None, batch_size, None, "estimated", 0)
        with loss.statistics_restored():
            loss()
            mean, variance = model[1].running_mean.clone(), model[1].running_var.clone()
        maps = [model[0](batch.images).flatten(1) for batch in loss.batches[: len(counts)]]
        shares = torch.tensor(counts).double() / sum(counts)
        torch.testing.assert_close(mean, shares @ torch.stack([m.mean(0) for m in maps]))
        torch.testing.assert_close(variance, shares @ torch.stack([m.var(0) for m in maps]))


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
    nll, right, counted = held(None, 5)()
    with torch.no_grad():
        logits = model(pictures)
    found = {round(v, 9) for v in nll.tolist()}
    every = torch.nn.functional.cross_entropy(model(pictures), labels, reduction="none")
    assert found == {round(v, 9) for v in every.tolist()}
    assert nll.dtype == torch.float64
    assert len(nll) == len(right) == len(logits)
    assert not right[nll > np.log(3)].any()  # less likely than one in three
    assert torch.equal(counted, torch.ones(12).double())


def test_labels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadData, match="7"):
        held(None, 4, (images()[0], torch.full((12,), 7)))


def test_places_are_visited_once() -> None:
    model = convolutional()
    loss = HeldLoss(model, images(), None, 6, None, "kept", 0)
    directions = [[torch.ones_like(model[7].bias)]]
    with loss.arranged("contiguous", PartialResults()), Plane([model[7].bias], directions) as plane:
        nll = loss().nll
        scores = visit(loss, plane, [(0.0,), (5.0,)], lambda _: nll, PartialResults(), "test")
    found = summarise(scores, np.ones(loss.n), yes_or_no=True)
    np.testing.assert_allclose(
        found["rise"].value, [0.0, 0.0], atol=1e-12
    )  # a common shift of scores changes nothing
    assert found["nll"].value[0] == pytest.approx(nll.mean().item())


def test_means_and_intervals_from_sums() -> None:
    random = np.random.default_rng(0)
    nll, reference = random.gamma(2.0, size=(2, 40))
    right = random.random(40) < 0.7
    scores = Scores(*(torch.from_numpy(a.astype(np.float64)) for a in (nll, right, np.ones(40))))
    found = summarise(score(scores, torch.from_numpy(reference)).numpy(), np.ones(40), yes_or_no=True)
    t = 2.022690920  # Student, 39 degrees of freedom
    for name, values in (("nll", nll), ("rise", nll - reference)):
        half = t * values.std(ddof=1) / np.sqrt(40)
        expected = [values.mean(), values.mean() - half, values.mean() + half]
        assert found[name] == pytest.approx(expected, rel=1e-4)
    assert found["accuracy"].value == right.mean()
    for end in found["accuracy"][1:]:  # Wilson: where the share is 1.96 errors away
        assert abs(right.mean() - end) == pytest.approx(1.959964 * np.sqrt(end * (1 - end) / 40), rel=1e-6)


def test_places_that_are_not_finite_stay_so_and_leave_the_others_alone() -> None:
    scores = Rows(sums=(3, COLUMNS))
    good, zeros, right = torch.ones(4).double(), torch.zeros(4).double(), torch.ones(4).double()
    bad = torch.tensor([1.0, float("inf"), 1.0, 1.0]).double()
    scores.fill(0, sums=score(Scores(good, right, right), zeros))
    scores.fill(2, sums=score(Scores(bad, right, right), zeros))
    found = summarise(scores.finish()["sums"], np.ones(4), yes_or_no=True)
    assert found["nll"].value.tolist() == [1.0, 0.0, float("inf")]
    assert np.isnan(found["nll"].low[2])
    assert found["accuracy"].value[0] == found["accuracy"].high[0] == 1.0
    assert found["accuracy"].low[0] == pytest.approx(4 / (4 + 1.959964**2))  # four of four is no certainty


def test_accuracy_of_what_is_right_in_part() -> None:
    """Pixels right of those counted, against a bootstrap over images; nothing counted, nothing said."""
    random = np.random.default_rng(1)
    counted = random.integers(20, 400, 60).astype(np.float64)
    right = np.floor(counted * random.beta(4, 2, 60))
    nll = torch.ones(60).double()
    sums = score(Scores(nll, torch.from_numpy(right), torch.from_numpy(counted)), nll).numpy()
    value, low, high = summarise(sums, counted, yes_or_no=False)["accuracy"]
    assert value == pytest.approx(right.sum() / counted.sum())
    drawn = random.integers(60, size=(4000, 60))
    spread = np.std(right[drawn].sum(1) / counted[drawn].sum(1))
    expected = score_interval(value, of_few(spread, 60), 60)
    assert (low, high) == pytest.approx(expected, abs=0.05 * (high - low))
    none = np.full(60, np.nan)
    sums = score(Scores(nll, torch.from_numpy(none), torch.from_numpy(none)), nll).numpy()
    assert np.isnan(summarise(sums, none, yes_or_no=False)["accuracy"]).all()
    zeros = score(Scores(nll, 0 * nll, nll), nll).numpy()
    value, low, high = summarise(zeros, np.ones(60), yes_or_no=False)["accuracy"]
    assert (value, low) == (0.0, 0.0)
    assert high > 0.05  # none of sixty is no certainty
