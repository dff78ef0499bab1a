from dataclasses import replace

import numpy as np
import pytest

from vitscope import plots
from vitscope.drawing.figures import new_panel, render
from vitscope.drawing.style import styled
from vitscope.findings.trajectory import TrajectoryResult


def result(name: str = "m") -> TrajectoryResult:
    return TrajectoryResult(
        model=name,
        data="",
        n=0,
        seed=0,
        checkpoints=("init", "epoch-001", "last"),
        epochs=np.array([0.0, 1.0, 2.0]),
        r=np.array([1.0, 0.6, 0.0]),
        theta=np.array([0.0, 1.8, np.nan]),
        start="init",
        optimum="last",
        chosen="last",
        distance=3.0,
        detour=1.7,
        parameters=10,
    )


def drawn(draw, *args):
    with styled():
        ax = draw(*args, ax=new_panel())
        render(ax, "png")
    return ax


def test_a_way_from_the_start_to_the_centre() -> None:
    ax = drawn(plots.plot_trajectory, result())
    assert ax.name == "polar"
    theta, r = ax.lines[0].get_data()
    np.testing.assert_array_equal(r, [1.0, 0.6, 0.0])
    np.testing.assert_array_equal(
        theta, [0.0, 1.8, 1.8]
    )  # the centre has no angle: reached along the last one
    assert ax.get_thetamax() == pytest.approx(120.0)
    assert [label.get_text() for label in ax.get_xticklabels()][:2] == ["start", "30°"]
    ax.set_thetamax(150)  # as beside a training that turned further
    assert "150°" in [label.get_text() for label in ax.get_xticklabels()]


def test_several_trainings_and_how_their_optimum_was_chosen() -> None:
    ax = drawn(
        plots.plot_trajectories, [result("a"), replace(result("b"), chosen="best", r=np.array([1, 1.5, 0]))]
    )
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["a: last checkpoint, detour 1.70", "b: best checkpoint, detour 1.70"]
    assert ax.get_rmax() > 1.5


def test_without_checkpoints_it_says_so() -> None:
    none = replace(result(), checkpoints=(), r=np.zeros(0), theta=np.zeros(0), epochs=np.zeros(0))
    ax = drawn(plots.plot_trajectory, none)
    assert [text.get_text() for text in ax.texts] == [
        "no checkpoints: not read from a run folder that kept some"
    ]
