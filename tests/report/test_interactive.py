import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import styled
from vitscope.findings.fourier import FourierResult
from vitscope.findings.maps import MapsResult
from vitscope.plots import plot_fourier_spectrum
from vitscope.report.inline import Widget, series, widget
from vitscope.results import Run


def content(found: Widget | None) -> Any:
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found.payload)))


def test_heat_map_has_a_name_per_row_and_the_numbers(runs: Path) -> None:
    result: Any = Run.open(runs / "resnet").results()["cka"]
    found = content(widget("cka", result))
    assert found["rows"] == [f"{unit.name} ({unit.kind})" for unit in result.units]
    assert np.allclose(found["value"], result.value, atol=1e-4)
    assert found["low"][0][1] is None  # a single batch has no interval


def test_every_unit_has_its_line(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["fourier"]
    assert isinstance(result, FourierResult)
    with styled():
        lines = series("fourier_spectrum", plot_fourier_spectrum(result, new_panel()))
    units = content(widget("fourier_spectrum", result))["units"]
    assert [unit["name"] for unit in units] == [unit.name for unit in result.units]
    assert len(lines) == len(units)
    last = result.value[result.row_unit == 3]
    assert np.array_equal(lines[3].get_ydata(), last)  # type: ignore[attr-defined]


def test_maps_of_every_layer_as_bytes(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["maps"]
    assert isinstance(result, MapsResult)
    found = content(widget("maps", result))
    names = [unit.name for unit in result.units]
    assert len(names) == 6
    assert [layer["name"] for layer in found["layers"]] == [*names, "rollout of 6 layers"]
    assert found["layers"][found["shown"]]["name"] == names[-1]
    for layer, kept in zip(found["layers"], [*result.layers, result.rollout], strict=True):
        assert kept is not None
        assert len(layer["heads"]) == layer["shape"][1] == kept.heads
        steps = np.frombuffer(base64.b64decode(layer["bytes"]), np.uint8).reshape(layer["shape"])
        np.testing.assert_array_equal(steps, kept.steps.array)
        np.testing.assert_allclose(layer["highest"], kept.highest, rtol=1e-4)
    assert base64.b64decode(found["images"]["bytes"]) == result.images.array.tobytes()
    assert found["places"] == result.indices.tolist()


def test_other_figures_have_none(runs: Path) -> None:
    assert widget("variance", Run.open(runs / "resnet").results()["variance"]) is None
