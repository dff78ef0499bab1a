"""Scores under several conditions, against plain float64 code and a bootstrap by hand."""

import numpy as np
import torch

from vitscope.core.bootstrap import poisson_weights
from vitscope.core.statistics import score_interval
from vitscope.engine.condition_scores import ConditionScores
from vitscope.engine.conditions import Scored, scored
from vitscope.results.condition_rows import QUANTITIES

ACCURACY, ECE = QUANTITIES.index("accuracy"), QUANTITIES.index("ece")


def drawn(seed: int, n: int = 400, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator)
    labels = torch.where(
        torch.rand(n, generator=generator) < 0.6,
        logits.argmax(1),
        torch.randint(classes, (n,), generator=generator),
    )
    return logits, labels, torch.arange(n)


def sums_of(logits: torch.Tensor, labels: torch.Tensor, indices: torch.Tensor) -> dict[str, torch.Tensor]:
    scores = ConditionScores(seed=3)
    for piece in torch.randperm(len(labels), generator=torch.Generator().manual_seed(1)).split(64):
        scores.update(logits[piece], labels[piece], indices[piece])
    return scores.finish()


def test_quantities_are_those_of_the_plain_formulas():
    logits, labels, indices = drawn(0)
    part = sums_of(logits, labels, indices)
    table = scored([part], reference=part)
    p = torch.softmax(logits.double(), 1).numpy()
    right = p.argmax(1) == labels.numpy()
    confidence = p.max(1)
    ece = 0.0
    for lo in np.arange(15) / 15:
        inside = (confidence > lo) & (confidence <= lo + 1 / 15)
        ece += abs(confidence[inside].sum() - right[inside].sum()) / len(right)
    expected = {
        "accuracy": right.mean(),
        "nll": -np.log(p[np.arange(len(p)), labels.numpy()]).mean(),
        "confidence": confidence.mean(),
        "ece": ece,
    }
    for quantity, value in expected.items():
        place = QUANTITIES.index(quantity)
        assert np.isclose(table.value[0, place], value, rtol=1e-12)
        assert table.low[0, place] < value < table.high[0, place]
    assert (
        table.drop.low[0] < table.drop.value[0] == 0 < table.drop.high[0]
    )  # no change in 400 is no certainty
    assert table.drop.high[0] < 0.01
    assert table.n == 400


def test_drops_are_paired_over_images():
    logits, labels, indices = drawn(0)
    changed = logits.clone()
    changed[:40] = -changed[:40]  # most of these 40 images are now wrong, all others are as before
    clean, worse = sums_of(logits, labels, indices), sums_of(changed, labels, indices)
    table = scored([worse], reference=clean)
    difference = (logits.argmax(1) == labels).double() - (changed.argmax(1) == labels).double()
    spread = float(difference.std() / np.sqrt(len(labels)))
    assert np.isclose(table.drop.value[0], float(difference.mean()))
    half = (table.drop.high[0] - table.drop.low[0]) / 2
    assert np.isclose(half, 1.96 * spread, rtol=0.15)  # 1000 replicates: a few per cent of noise
    unpaired = 1.96 * np.sqrt(2 * 0.6 * 0.4 / len(labels))
    assert half < 0.7 * unpaired


def mean_of(parts: list[dict[str, torch.Tensor]], quantity: str) -> tuple[float, float, float]:
    found = Scored([parts], parts[0]).headline(quantity, "mean")
    return found.value, found.low, found.high


def test_means_over_conditions_keep_the_images_together():
    logits, labels, indices = drawn(0)
    part = sums_of(logits, labels, indices)
    single = scored([part], reference=part)
    value, low, high = mean_of([part, part, part], "accuracy")
    found = (single.value[0, ACCURACY], single.low[0, ACCURACY], single.high[0, ACCURACY])
    assert value == found[0]  # three times the same tells nothing new, but for the noise of 1000 replicates
    assert np.allclose((low, high), found[1:], atol=0.05 * (found[2] - found[1]))


def test_all_right_is_not_certainty():
    logits, _, indices = drawn(0, n=50)
    part = sums_of(logits, logits.argmax(1), indices)
    table = scored([part], reference=part)
    wilson = 50 / (50 + 1.959964**2)
    for quantity in ("accuracy", "top5"):
        place = QUANTITIES.index(quantity)
        assert table.value[0, place] == table.high[0, place] == 1.0
        assert np.isclose(table.low[0, place], wilson, rtol=1e-6)
        assert np.isclose(mean_of([part, part], quantity)[1], wilson, rtol=1e-6)


def test_mean_accuracies_near_one_are_covered():
    """Images with a hardness of their own under five conditions; a percentile interval covers 0.86 of these."""
    generator = np.random.default_rng(0)
    n, covered, weights = 150, [], poisson_weights(np.arange(150), 0, 300)
    for _ in range(400):
        wrong = generator.random((n, 5)) < generator.beta(0.1, 4.9, n)[:, None]  # 2 % on average
        drawn_means = weights.T @ (1 - wrong.mean(1)) / weights.sum(0)
        low, high = score_interval(drawn_means[0], drawn_means[1:].std(), n)
        covered.append(low <= 0.98 <= high)
    assert 0.92 < np.mean(covered) < 0.985
