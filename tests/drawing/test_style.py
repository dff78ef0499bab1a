from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import MODELS, logarithmic, model_colour, shared_limits, styled


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
