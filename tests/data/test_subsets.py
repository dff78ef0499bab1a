import numpy as np
import pytest

from vitscope.core.errors import BadData
from vitscope.data.subsets import fraction_indices, limit_indices

UNEVEN = np.repeat(np.arange(4), (1000, 300, 50, 7))


def counts(labels: np.ndarray, indices: np.ndarray) -> list[int]:
    return np.bincount(labels[indices], minlength=4).tolist()


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.9])
def test_fraction_keeps_every_class_share(fraction: float) -> None:
    kept = fraction_indices(UNEVEN, fraction, seed=3)
    assert counts(UNEVEN, kept) == [int(n * fraction + 0.5) for n in (1000, 300, 50, 7)]
    assert len(set(kept.tolist())) == len(kept)
    assert (np.diff(kept) > 0).all()


def test_fraction_depends_on_the_seed_only() -> None:
    first = fraction_indices(UNEVEN, 0.1, seed=0)
    assert (first == fraction_indices(UNEVEN, 0.1, seed=0)).all()
    assert (first != fraction_indices(UNEVEN, 0.1, seed=1)).any()


def test_smaller_fractions_are_nested() -> None:
    small, large = (set(fraction_indices(UNEVEN, f, seed=5).tolist()) for f in (0.1, 0.4))
    assert small < large


def test_fraction_does_not_depend_on_where_the_classes_lie() -> None:
    order = np.random.default_rng(0).permutation(len(UNEVEN))
    kept = fraction_indices(UNEVEN[order], 0.1, seed=0)
    assert counts(UNEVEN[order], kept) == [100, 30, 5, 1]


def test_fraction_that_empties_a_class_names_it_and_the_remedy_works() -> None:
    with pytest.raises(
        BadData, match=r"class 'rare' \(7 images\) empty; use a fraction of at least 0.072"
    ) as caught:
        fraction_indices(UNEVEN, 0.02, classes=("a", "b", "c", "rare"))
    remedy = float(str(caught.value).rsplit(" ", 1)[1])
    assert counts(UNEVEN, fraction_indices(UNEVEN, remedy))[3] == 1


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, float("nan")])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(BadData, match="above 0 and at most 1"):
        fraction_indices(UNEVEN, fraction)


@pytest.mark.parametrize("limit", [1, 3, 13, 100, 679, 1356, 1357, 9999])
def test_limit_gives_exactly_that_many_with_the_shares_of_the_whole(limit: int) -> None:
    kept = limit_indices(UNEVEN, limit, seed=1)
    assert len(kept) == min(limit, len(UNEVEN)) == len(set(kept.tolist()))
    ideal = np.array([1000, 300, 50, 7]) * len(kept) / len(UNEVEN)
    assert (np.abs(counts(UNEVEN, kept) - ideal) < 1).all()


def test_limit_below_one_per_class_draws_the_classes() -> None:
    labels = np.arange(100) % 50
    drawn = [frozenset(labels[limit_indices(labels, 10, seed)]) for seed in range(5)]
    assert all(len(classes) == 10 for classes in drawn)
    assert len(set(drawn)) == 5


def test_limit_of_nothing_is_refused() -> None:
    with pytest.raises(BadData, match="at least 1 image"):
        limit_indices(UNEVEN, 0)
