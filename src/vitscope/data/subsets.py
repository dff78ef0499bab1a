"""Seeded, class-stratified subsets: the same seed gives the same images on every machine."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vitscope.core.errors import BadData

Labels = npt.NDArray[np.int64]


def fraction_indices(labels: Labels, fraction: float, seed: int = 0, classes: Sequence[str] = ()) -> Labels:
    """Positions, in ascending order, of `fraction` of every class.

    A class of n images keeps n x fraction of them, rounded half up. With one seed, a smaller fraction is
    a subset of a larger one, so that learning curves over fractions compare like with like.
    """
    if not 0.0 < fraction <= 1.0:
        raise BadData(
            f"fraction is {fraction}; expected a number above 0 and at most 1, such as 0.02 for 2 %"
        )
    if fraction == 1.0:
        return np.arange(len(labels), dtype=np.int64)
    kept = []
    for label, members in _by_class(labels, seed):
        count = int(np.floor(len(members) * fraction + 0.5))
        if count == 0:
            name = f"'{classes[label]}'" if 0 <= label < len(classes) else str(label)
            smallest = _smallest_fraction(labels)
            raise BadData(
                f"fraction {fraction} leaves class {name} ({len(members)} images) empty; "
                f"use a fraction of at least {smallest:.2g}"
            )
        kept.append(members[:count])
    return np.sort(np.concatenate(kept))


def limit_indices(labels: Labels, limit: int, seed: int = 0) -> Labels:
    """Positions, in ascending order, of exactly `limit` images whose class shares are those of the whole.

    Shares that are not whole numbers are settled by largest remainder, ties by a seeded draw. Below one image
    per class the classes that get one are drawn as well.
    """
    check_limit(limit)
    if limit >= len(labels):
        return np.arange(len(labels), dtype=np.int64)
    groups = _by_class(labels, seed)
    ideal = np.array([len(members) for _, members in groups]) * (limit / len(labels))
    counts = np.floor(ideal).astype(np.int64)
    tie_break = np.random.default_rng([seed, len(groups)]).permutation(len(groups))
    by_remainder = np.lexsort((tie_break, -np.round(ideal - counts, 9)))
    counts[by_remainder[: limit - counts.sum()]] += 1
    kept = [members[:count] for (_, members), count in zip(groups, counts, strict=True)]
    return np.sort(np.concatenate(kept))


def check_limit(limit: int) -> None:
    """Refuse a limit that leaves nothing."""
    if limit < 1:
        raise BadData(f"limit is {limit}; expected at least 1 image, or no limit at all")


def _by_class(labels: Labels, seed: int) -> list[tuple[int, Labels]]:
    """Each class that occurs with its positions in a seeded order."""
    order = np.argsort(labels, kind="stable")
    values, starts = np.unique(labels[order], return_index=True)
    members = np.split(order, starts[1:])
    return [
        (int(value), np.random.default_rng([seed, int(value) & 0xFFFFFFFF]).permutation(positions))
        for value, positions in zip(values, members, strict=True)
    ]


def _smallest_fraction(labels: Labels) -> float:
    """The smallest fraction that leaves no class empty, rounded up to two significant digits."""
    exact = 0.5 / np.unique(labels, return_counts=True)[1].min()
    unit = 10.0 ** (np.floor(np.log10(exact)) - 1)
    return float(min(np.ceil(exact / unit - 1e-9) * unit, 1.0))
