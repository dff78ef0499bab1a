import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from vitscope.results.numbers import (
    Duration,
    capital,
    duration,
    label,
    plain,
    spoken,
    unbroken,
    with_interval,
)


@pytest.mark.parametrize(
    ("quantity", "numbers", "text"),
    [
        ("accuracy", (0.9123, 0.9, 0.92), "91.2 % [90.0, 92.0]"),
        ("nll", (0.31415, 0.3, 0.33), "0.314 [0.3, 0.33]"),
        ("variance", (1.5, math.nan, math.nan), "1.5"),
        ("intact accuracy", (0.5, 0.4, 0.6), "50.0 % [40.0, 60.0]"),
        ("drop msa last", (0.1, math.nan, math.nan), "10.0 points"),
        ("signed_ece", (-0.04, -0.06, -0.02), "-4.0 points [-6.0, -2.0]"),
    ],
)
def test_with_interval(quantity: str, numbers: tuple[float, float, float], text: str) -> None:
    value, low, high = numbers
    assert with_interval(SimpleNamespace(quantity=quantity, value=value, low=low, high=high)) == text


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("accuracy", "+5.0 points [-1.0, +11.0]"),
        ("ece", "+5.0 points [-1.0, +11.0]"),
        ("nll", "+0.05 [-0.01, +0.11]"),
    ],
)
def test_model_minus_model_is_in_points_and_has_a_sign(quantity: str, text: str) -> None:
    row = SimpleNamespace(quantity=quantity, value=0.05, low=-0.01, high=0.11)
    assert with_interval(row, difference=True) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (pd.NA, "–"),
        (math.nan, "–"),
        (1 / 3, "0.3333"),
        (np.float64(2.0), "2"),
        (7, "7"),
        ("a", "a"),
    ],
)
def test_plain(value: object, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(
    ("quantity", "kind", "text"),
    [
        ("accuracy", None, "accuracy"),
        ("change", "msa", "fourier: mean change across MSAs"),
        ("change", "conv", "fourier: mean change across conv units"),
        ("cosine_change", "msa", "fourier: mean cosine change across MSAs"),
        ("ece_change", None, "ece_change"),
        ("drop msa last", "msa", "drop msa last"),
    ],
)
def test_label(quantity: str, kind: str | None, text: str) -> None:
    assert label("fourier", SimpleNamespace(quantity=quantity, kind=kind)) == text


def test_throughput_says_what_it_is_relative_to() -> None:
    row = SimpleNamespace(quantity="throughput", kind=None, condition="10 passes")
    assert label("passes", row) == "throughput relative to one pass, 10 passes"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("centre_nll", "centre NLL"),
        ("nep", "NEP"),
        ("accuracy, mc dropout + temporal", "accuracy, MC dropout + temporal"),
        ("largest theta", "largest angle in radians"),
        ("fourier: mean change across MSAs", "fourier: mean change across MSAs"),
        ("drop, noise below 0.5π", "drop, noise below 0.5π"),
    ],
)
def test_spoken(name: str, text: str) -> None:
    assert spoken(name) == text


@pytest.mark.parametrize(
    ("text", "expected"), [("mIoU 3 %", "mIoU 3 %"), ("box AP", "Box AP"), ("ECE", "ECE"), ("", "")]
)
def test_capital(text: str, expected: str) -> None:
    assert capital(text) == expected


def test_unbroken_leaves_one_place_to_break() -> None:
    assert unbroken("75.8 % [66.8, 84.5]").split(" ") == ["75.8\u00a0%", "[66.8,\u00a084.5]"]
    assert unbroken("+1.0 points [-2.0, +4.0]").count(" ") == 1


@pytest.mark.parametrize(
    ("style", "texts"),
    [
        ("short", ["0.3 s", "42 s", "12 min", "97 min", "2.5 h"]),
        ("words", ["0 minutes", "1 minutes", "12 minutes", "97 minutes", "2.5 hours"]),
        ("cell", ["0 s", "42 s", "11.7 min", "96.7 min", "2.5 h"]),
        ("exact", ["0 min 0 s", "0 min 42 s", "11 min 42 s", "1 h 36 min", "2 h 30 min"]),
    ],
)
def test_a_time_as_people_say_it(style: Duration, texts: list[str]) -> None:
    assert [duration(seconds, style) for seconds in (0.31, 42.4, 702, 5799, 9000)] == texts
    assert duration(math.nan, style) == "–"
