import re
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from vitscope.drawing.figures import new_panel, render
from vitscope.drawing.style import MODELS, legible, logarithmic, model_colour, shared_limits, styled


def luminance(colour: str) -> float:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    light, dark = sorted([luminance(a), luminance(b)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", MODELS)
@pytest.mark.parametrize("paper", ["#ffffff", "#15181c"])
def test_model_colours_stand_out_on_white_and_on_black(colour: str, paper: str) -> None:
    assert contrast(colour, paper) >= 3.0


# Machado, Oliveira and Fernandes (2009), complete loss of one kind of cone, in linear RGB.
CONES = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


@pytest.mark.parametrize("kind", list(CONES))
def test_first_three_model_colours_differ_without_one_kind_of_cone(kind: str) -> None:
    seen = []
    for colour in MODELS[:3]:
        rgb = np.array(to_rgb(colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen.append(np.clip(np.array(CONES[kind]) @ linear, 0, 1) ** (1 / 2.4))
    assert all(np.linalg.norm(a - b) > 0.25 for a, b in combinations(seen, 2))


def test_colours_go_round() -> None:
    assert model_colour(0) == MODELS[0]
    assert model_colour(len(MODELS)) == MODELS[0]


def test_shared_limits_hold_everything() -> None:
    a, b = new_panel(), new_panel()
    a.plot([0, 1], [0, 10])
    b.plot([2, 3], [-5, 5])
    shared_limits([a, b])
    assert a.get_xlim() == b.get_xlim()
    assert a.get_ylim() == b.get_ylim()
    assert a.get_ylim()[0] <= -5
    assert a.get_ylim()[1] >= 10


def test_one_logarithmic_axis_makes_all_logarithmic() -> None:
    a, b = new_panel(), new_panel()
    a.plot([0, 1], [0.001, 10])
    logarithmic(a)
    b.plot([0, 1], [2, 3])
    b.set_ylim(bottom=0)
    shared_limits([a, b])
    assert b.get_yscale() == "log"
    assert a.get_ylim() == b.get_ylim()
    assert 0 < a.get_ylim()[0] <= 0.001


def test_style_does_not_leak() -> None:
    before = matplotlib.rcParams["axes.spines.top"]
    with styled():
        assert matplotlib.rcParams["axes.spines.top"] is False
    assert matplotlib.rcParams["axes.spines.top"] == before


def labels(ax) -> list[str]:
    render(ax, "png")
    low, high = ax.get_ylim()
    ticks = [*ax.yaxis.get_major_ticks(), *ax.yaxis.get_minor_ticks()]
    return [t.label1.get_text() for t in ticks if low <= t.get_loc() <= high and t.label1.get_text()]


@pytest.mark.parametrize("log", [False, True])
def test_an_axis_does_not_zoom_into_rounding(log: bool) -> None:
    ax = new_panel()
    ax.plot([0, 1], [1 - 3e-9, 1 + 2e-9])
    if log:
        logarithmic(ax)
    legible(ax)
    low, high = ax.get_ylim()
    assert 0.9e-3 < high - low < 1.1e-3
    assert low < 1 - 3e-9 < 1 + 2e-9 < high
    shown = labels(ax)
    assert len(set(shown)) == len(shown) >= 2
    assert not any("e" in text for text in shown)


@pytest.mark.parametrize("ends", [(2.0, 5.0), (1e-9, 3e-9), (0.0, 0.0)])
def test_an_axis_wide_enough_stays(ends: tuple[float, float]) -> None:
    ax = new_panel()
    ax.plot([0, 1], ends)
    before = ax.get_ylim()
    legible(ax)
    assert ax.get_ylim() == before


def test_what_is_drawn_later_still_widens_a_narrow_axis() -> None:
    ax = new_panel()
    ax.plot([0, 1], [1, 1 + 1e-9])
    legible(ax)
    ax.plot([0, 1], [1, 3])
    assert ax.get_ylim()[1] > 3


@pytest.mark.parametrize(
    ("ends", "style"),
    [
        ((0.3, 3.2), r"[\d.]+"),
        ((0.0002, 60.0), r"[\d.]+"),
        ((1e-8, 1.0), r"(\d·)?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"),
        ((2e-6, 7e-6), r"(\d·)?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"),
        ((1e3, 3e7), r"(\d·)?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"),
    ],
)
def test_numbers_of_a_logarithmic_axis_have_one_style(ends: tuple[float, float], style: str) -> None:
    ax = new_panel()
    ax.plot([0, 1], ends)
    logarithmic(ax)
    shown = labels(ax)
    assert len(set(shown)) == len(shown) >= 2
    assert all(re.fullmatch(style, text) for text in shown), shown


def test_a_marker_on_an_axis_is_whole() -> None:
    """One beside the axes is not drawn over them."""
    ax = new_panel()
    on, beside = ax.plot([0, 0.5], [0, 1], "-o")[0], ax.plot([0.5, 2], [0.2, 0.4], "o")[0]
    bare = ax.plot([0, 1], [0, 1])[0]
    ax.set(xlim=(0, 1), ylim=(0, 1))
    legible(ax)
    assert (on.get_clip_on(), beside.get_clip_on(), bare.get_clip_on()) == (False, True, True)
