import json

import numpy as np

from tests.findings.landscape_results import WAY, bowl, with_holes
from vitscope.plots.landscape_interactive import interactive_landscape


def test_a_surface_per_quantity_of_which_one_is_shown() -> None:
    drawing = interactive_landscape(bowl(), "loss")
    surfaces = [trace for trace in drawing.data if trace.type == "surface"]
    np.testing.assert_array_equal(surfaces[0].z, bowl().nll.value)
    np.testing.assert_array_equal(surfaces[1].z, bowl().loss)
    assert [trace.visible for trace in drawing.data] == [False, False, True, True, False, False]
    assert drawing.layout.scene.zaxis.title.text == "NLL + l2"
    buttons = drawing.layout.updatemenus[0].buttons
    assert [button.label for button in buttons] == ["NLL", "NLL + l2", "Accuracy"]
    assert list(buttons[0].args[0]["visible"]) == [True, True, False, False, False, False]


def test_marks_lie_on_the_surface() -> None:
    drawing = interactive_landscape(bowl(marks=WAY))
    places = drawing.data[1]
    assert list(places.text) == ["init", "epoch-001", "last", "m"]
    assert places.mode == "lines+markers"
    between = 0.5 * (2 * 0.4**2 + 2 * 0.6**2)  # y = 0.5 lies in the middle of two rows
    np.testing.assert_allclose([places.z[0], places.z[-1]], [1.0 + 0.8**2 + between, 1.0])
    assert interactive_landscape(bowl()).data[1].mode == "markers"


def test_what_is_not_finite_is_left_out_and_counted() -> None:
    drawing = interactive_landscape(with_holes())
    assert np.isnan(drawing.data[0].z).sum() == 3
    assert drawing.layout.annotations[0].text == "3 of 121 points not finite"
    assert not interactive_landscape(bowl()).layout.annotations
    assert "Infinity" not in json.dumps(drawing.to_plotly_json()["layout"])


def test_a_given_height_holds_for_the_nll_alone() -> None:
    drawing = interactive_landscape(bowl(), height=(0.0, 50.0))
    assert drawing.layout.scene.zaxis.range == (0.0, 50.0)
    assert [(trace.cmin, trace.cmax) for trace in drawing.data[::2]] == [
        (0.0, 50.0),
        (None, None),
        (None, None),
    ]
    told = [button.args[1] for button in drawing.layout.updatemenus[0].buttons]
    assert told[0]["scene.zaxis.range"] == [0.0, 50.0]
    assert told[2]["scene.zaxis.autorange"]
