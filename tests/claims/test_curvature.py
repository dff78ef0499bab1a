"""C5 on spectra that are known."""

import dataclasses

import numpy as np
import pytest

from vitscope.claims import alternet_verdicts, transformer_verdicts
from vitscope.core.errors import BadResult
from vitscope.findings.hessian import HessianResult
from vitscope.results.loss_numbers import summed_up


def spectrum(name: str, values: np.ndarray) -> HessianResult:
    batches, k = values.shape
    numbers = {field: np.ones(batches) for field in ("nll", "l2")}
    return HessianResult(
        model=name,
        data="fashion (train)",
        n=16 * batches,
        seed=0,
        eigenvalues=values,
        residuals=np.full((batches, k), 1e-4),
        converged=np.ones((batches, k), dtype=bool),
        products=np.full(batches, 20),
        batch_size=16,
        weight_decay=5e-2,
        convention="half_square",
        decay_all=True,
        params="all that learn",
        parameters=1000,
        augmentation="hdv",
        mode="lanczos",
        tol=1e-3,
        **numbers,
        **summed_up(values, 0),
    )


def drawn(negatives: int, positive: float, seed: int = 0) -> np.ndarray:
    """12 batches of 5, of which so many are negative in each, and the others about `positive`."""
    values = positive * np.random.default_rng(seed).uniform(0.9, 1.1, (12, 5))
    values[:, :negatives] *= -1
    return values


def test_a_transformer_as_in_the_paper():
    verdicts = transformer_verdicts(spectrum("vit", drawn(2, 5.0)), spectrum("cnn", drawn(0, 50.0, seed=1)))
    assert [v.judgement for v in verdicts] == ["holds", "holds"]
    assert verdicts[0].found == "+0.4 [+0.185, +0.501] over 12 batches; NEP 0.4, cnn 0"
    assert all(v.scope.startswith("one training each") for v in verdicts)


def test_the_other_way_round_does_not_hold():
    verdicts = transformer_verdicts(spectrum("vit", drawn(0, 50.0)), spectrum("cnn", drawn(2, 5.0, seed=1)))
    assert [v.judgement for v in verdicts] == ["does not hold", "does not hold"]


def test_no_difference_is_inconclusive():
    (verdict,) = alternet_verdicts(spectrum("a", drawn(0, 5.0)), spectrum("b", drawn(0, 5.0)[::-1].copy()))
    assert verdict.judgement == "inconclusive"


def test_few_batches_decide_nothing():
    few = [spectrum(name, drawn(n, p)[:2]) for name, n, p in (("vit", 2, 5.0), ("cnn", 0, 50.0))]
    verdicts = transformer_verdicts(*few)
    assert [v.judgement for v in verdicts] == ["inconclusive", "inconclusive"]
    assert verdicts[0].value == pytest.approx(0.4)
    assert verdicts[0].lacking == "of 2 batches, at least 8 are needed for a verdict"


def test_unlike_spectra_are_refused():
    one = spectrum("a", drawn(0, 5.0))
    with pytest.raises(BadResult, match="batch_size"):
        alternet_verdicts(one, dataclasses.replace(one, batch_size=32))
