"""The number that a comparison is about, of one training of each of its arms.

    of                  the arm's own number                     x_of
    of, against         a difference                             x_of - x_against
    contrast            a weighted sum                           Σ w_a x_a
    slope               against a number t_a of each arm         Σ (t_a - mean t)(x_a - mean x) / Σ (t_a - mean t)²

Each of the logarithm of x, and of t, if asked. All are sums of the arms' numbers with weights that do not depend on
them, so that replicates of a sum are sums of replicates: where all arms have seen the same images, what these do to all
alike drops out. Without replicates errors add up as if images had been different, which is rather too wide.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vitscope.core.bootstrap import of_few, standard_error
from vitscope.core.statistics import NORMAL
from vitscope.results.over_seeds import Measured, difference
from vitscope.studies.design import Comparison
from vitscope.studies.quantities import (
    NotMeasured,
    Quantity,
    Results,
    measure,
    measure_difference,
    same_images,
)

Trained = tuple[Results, Mapping[str, Any] | None]  # results and training of one model


def measure_comparison(one: Comparison, trained: Mapping[str, Trained]) -> Measured:
    """The number of a comparison, given the results and the training of every arm for one seed."""
    if one.of is not None and one.against is not None and not one.log:
        return measure_difference(one.quantity, trained[one.of], trained[one.against])
    numbers = {arm: measure(one.quantity, *trained[arm]) for arm in one.arms}
    if one.log:
        numbers = {arm: logarithm(number, one.quantity) for arm, number in numbers.items()}
    label = Quantity.read(one.quantity).label
    if not same_images([trained[arm][0].get(label) for arm in one.arms]):
        numbers = {arm: replace(number, drawn=None) for arm, number in numbers.items()}
    if one.of is not None:
        if one.against is None:
            return numbers[one.of]
        return difference("logarithm", numbers[one.of], numbers[one.against])
    weights = dict(one.contrast) or slope_weights(one, trained)
    return weighted(weights, numbers)


def logarithm(number: Measured, quantity: str) -> Measured:
    """Of a number above 0, with its interval and replicates; an end at or below 0 is not known."""
    if not number.value > 0:
        raise NotMeasured(f"{quantity} is {number.value:g}, which has no logarithm")
    low, high = (math.log(end) if end > 0 else math.nan for end in (number.low, number.high))
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = None if number.drawn is None else np.log(number.drawn)
    return Measured(math.log(number.value), low, high, number.n, drawn)


def slope_weights(one: Comparison, trained: Mapping[str, Trained]) -> dict[str, float]:
    """What each arm's number is multiplied with for the slope."""
    places = np.array(
        [
            measure(place, *trained[arm]).value if isinstance(place, str) else float(place)
            for arm, place in one.slope.items()
        ]
    )
    if one.log:
        places = np.log(places)
    away = places - places.mean()
    if not away.any():
        raise NotMeasured(f"the arms of {one.subject} do not differ in what the slope is against")
    return dict(zip(one.slope, (away / (away**2).sum()).tolist(), strict=True))


def weighted(weights: Mapping[str, float], found: Mapping[str, Measured]) -> Measured:
    """A weighted sum of numbers."""
    value = sum(weight * found[arm].value for arm, weight in weights.items())
    n = min(found[arm].n for arm in weights)
    drawn = [found[arm].drawn for arm in weights]
    known = [one for one in drawn if one is not None]
    if len(known) == len(weights) and len({len(one) for one in known}) == 1:
        added = np.sum([w * one for w, one in zip(weights.values(), known, strict=True)], axis=0)
        half = NORMAL * float(of_few(standard_error(added[1:]), n)) if n > 1 else math.nan
        return Measured(value, value - half, value + half, n, added)
    halves = [weight * found[arm].half for arm, weight in weights.items()]
    if not any(halves):
        return Measured(value, n=n)
    half = math.hypot(*halves)
    return Measured(value, value - half, value + half, n)
