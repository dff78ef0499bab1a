from dataclasses import replace

import numpy as np
import pytest

from tests.findings.landscape_results import WAY, around, bowl, line, with_holes
from vitscope import plots
from vitscope.drawing.figures import new_panel, render
from vitscope.drawing.style import styled
from vitscope.findings.landscape import Mark


def drawn(draw, *args, **kwargs):
    with styled():
        ax = draw(*args, ax=new_panel(), **kwargs)
        render(ax, "svg")
    return ax


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_contours_are_those_of_the_formula() -> None:
    ax = drawn(plots.plot_landscape, bowl())
    filled, lines = ax.collections
    levels = filled.levels
    assert levels[0] <= 1.0
    assert levels[-1] >= bowl().nll.value.max()
    level = float(levels[4])
    path = lines.get_paths()[4].vertices  # straight between grid points, a little outside the ellipse at most
    height = 1.0 + path[:, 0] ** 2 + 2.0 * path[:, 1] ** 2
    np.testing.assert_allclose(height, level, atol=0.03)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("First direction", "Second direction")
    assert ax.get_aspect() == 1.0


def test_high_walls_do_not_take_all_colours() -> None:
    nll = bowl().nll.value.copy()
    nll[0] = 1e4
    ax = drawn(plots.plot_landscape, bowl(nll=around(nll)))
    assert ax.collections[0].levels[-1] < 20.0


def test_what_is_not_finite_is_masked_and_counted() -> None:
    ax = drawn(plots.plot_landscape, with_holes())
    assert words(ax) == ["3 of 121 points not finite"]
    assert np.isfinite(ax.collections[0].levels).all()
    surface = drawn(plots.plot_landscape_surface, with_holes())
    assert words(surface) == ["3 of 121 points not finite"]
    assert not words(drawn(plots.plot_landscape, bowl()))


def test_a_landscape_without_a_finite_point_can_be_drawn() -> None:
    nowhere = bowl(nll=around(np.full((11, 11), np.nan)))
    assert words(drawn(plots.plot_landscape, nowhere)) == ["121 of 121 points not finite"]
    drawn(plots.plot_landscape_surface, nowhere)
    drawn(plots.plot_landscape, bowl(nll=around(np.ones((11, 11)))))


def test_checkpoints_are_joined_and_other_models_named() -> None:
    other = Mark("second", -0.4, 0.4, 0.0, None)
    result = bowl(marks=(*WAY, other), directions="pca", explained=np.array([0.8, 0.15]))
    ax = drawn(plots.plot_landscape, result)
    way = next(drawing for drawing in ax.lines if drawing.get_marker() == "o")
    np.testing.assert_array_equal(way.get_xydata(), [(m.x, m.y) for m in WAY])
    assert words(ax) == ["init", "second"]
    assert ax.get_xlabel() == "PC 1 (80 %)"


def test_axes_of_the_steepest_directions_state_their_curvature() -> None:
    ax = drawn(plots.plot_landscape, bowl(directions="hessian", eigenvalues=np.array([41.0, -7.5])))
    assert ax.get_ylabel() == "Eigenvector 2 (λ = -7.5)"


def test_the_line_between_two_models() -> None:
    ax = drawn(plots.plot_landscape_line, line())
    np.testing.assert_allclose(ax.lines[0].get_ydata(), line().nll.value)
    assert ax.get_xlabel() == "0: m      1: o"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["NLL", "Accuracy"]
    holes = line().nll.value.copy()
    holes[2] = np.inf
    assert words(drawn(plots.plot_landscape_line, replace(line(), nll=around(holes)))) == [
        "1 of 5 points not finite"
    ]


def test_several_models_are_drawn_to_one_scale() -> None:
    flat, steep = bowl(), bowl(nll=around(10.0 * bowl().nll.value))
    for plot in plots.PLOTS["landscape"]:
        assert plot.common is not None
        common = plot.common([flat, steep])
        panels = [drawn(plot.draw, result, **common) for result in (flat, steep)]
        assert panels[0].collections[0].get_clim() == panels[1].collections[0].get_clim()
        if panels[0].name == "3d":
            assert panels[0].get_zlim() == panels[1].get_zlim()
            low, high = common["height"]
            assert panels[0].get_zlim() == pytest.approx((low, high))
            assert panels[1].zz_dataLim.intervalx[1] == pytest.approx(min(high, steep.nll.value.max()))
        else:
            assert panels[0].collections[0].levels[-1] > flat.nll.value.max()
    nowhere = bowl(nll=around(np.full((11, 11), np.nan)))
    assert [plot.common([nowhere] * 2) for plot in plots.PLOTS["landscape"] if plot.common] == [{}, {}]
