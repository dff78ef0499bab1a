from dataclasses import replace

import pytest

from tests.findings.landscape_results import around, bowl
from tests.findings.test_landscape import drawn
from vitscope import plots
from vitscope.findings.landscape import common_height


def test_the_surface_takes_the_place_of_flat_axes() -> None:
    ax = drawn(plots.plot_landscape_surface, bowl(), quantity="loss")
    assert ax.name == "3d"
    assert ax.get_zlabel() == "NLL + l2"
    assert len(ax.figure.axes) == 1
    assert ax.get_zlim()[0] == pytest.approx(6.0, abs=0.3)


def test_surfaces_of_several_models_have_one_height() -> None:
    first, second = plots.plot_landscape_surfaces(
        [bowl(), replace(bowl(nll=around(5.0 * bowl().nll.value)), model="steep")]
    )
    assert first.get_zlim() == second.get_zlim() == (1.0, 20.0)
    assert second.get_title() == "steep"


def test_a_wall_does_not_flatten_the_surfaces_of_others() -> None:
    nll = bowl().nll.value.copy()
    nll[0, 0] = 1e4
    assert common_height([bowl(), bowl(nll=around(nll))])["height"][1] < 20.0
    assert common_height([bowl(nll=around(nll))]) == {}  # a single model is shown as it is
