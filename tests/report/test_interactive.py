import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from vitscope.exams.fourier import FourierResult
from vitscope.exams.maps import MapsResult
from vitscope.plots import plot_fourier_spectrum
from vitscope.plots.figures import new_panel
from vitscope.plots.style import styled
from vitscope.report.interactive import Widget, series, widget
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


def test_maps_are_scaled_by_their_own_values(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["maps"]
    assert isinstance(result, MapsResult)
    found = content(widget("maps", result))
    layer = np.array(found["layers"][0]["maps"])
    assert layer.shape == result.maps.shape
    assert (layer.min((2, 3)) == 0).all()
    assert (layer.max((2, 3)) == 255).all()
    brightest = layer.reshape(*layer.shape[:2], -1).argmax(2)
    assert np.array_equal(brightest, result.maps.reshape(*layer.shape[:2], -1).argmax(2))
    assert found["places"] == result.indices.tolist()
    assert found["layers"][1]["heads"] == ["all heads"]


def test_other_figures_have_none(runs: Path) -> None:
    assert widget("variance", Run.open(runs / "resnet").results()["variance"]) is None
