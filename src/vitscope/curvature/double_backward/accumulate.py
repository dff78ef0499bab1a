"""Sums of terms some of which are absent."""

from torch import Tensor


def total(*terms: Tensor | None) -> Tensor | None:
    """The sum of the terms that are there, written into the first, which nobody else may hold."""
    present = [term for term in terms if term is not None]
    if not present:
        return None
    first, *rest = present
    if not rest:
        return first
    for term in rest:
        first = first.add_(term)
    return first
