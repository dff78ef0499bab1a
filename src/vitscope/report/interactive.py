"""Figures that answer to a pointer: what the page's script has to know about them.

Every one is a static figure first. The script adds to it: names and values of the cells of a heat map, lines that can
be picked out, attention maps by image, layer and head, a surface that can be turned.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vitscope.drawing import mpl
from vitscope.findings.cka import CkaResult
from vitscope.findings.fourier import FourierResult
from vitscope.findings.landscape import LandscapeResult
from vitscope.findings.maps import LayerMaps, MapsResult
from vitscope.plots.landscape_interactive import interactive_landscape
from vitscope.report.inline import packed, packed_json
from vitscope.results import Result, UnitRow
from vitscope.results.codec import ByteArray


@dataclass(frozen=True)
class Widget:
    """What a figure can do: `kind` names a function of the page's script, `payload` is what it is given."""

    kind: str
    payload: str  # packed JSON


def widget(plot: str, result: Result, **common: Any) -> Widget | None:
    """The widget of a figure, by the figure's name; `common` is what the figures of all models share."""
    make = _WIDGETS.get(plot)
    return make(result, **common) if make else None


def series(plot: str, ax: mpl.Axes) -> list[mpl.Artist]:
    """The parts of a drawn figure that the script picks out, one per unit."""
    return [*ax.lines] if plot in _SPECTRA else []


def _heat(result: CkaResult) -> Widget:
    content = {
        "rows": [_name(unit) for unit in result.units],
        "columns": [_name(unit) for unit in result.other_units],
        "value": result.value,
        "low": result.low,
        "high": result.high,
        "quantity": "CKA",
    }
    return Widget("heat", packed_json(content))


def _spectra(result: FourierResult) -> Widget:
    units = [{"name": unit.name, "kind": unit.kind} for unit in result.units]
    return Widget("series", packed_json({"units": units}))


def _maps(result: MapsResult) -> Widget | None:
    if not result.units:
        return None
    heads = [[f"head {head}" for head in range(layer.heads)] for layer in result.layers]
    layers = [
        _layer(unit.name, names, layer)
        for unit, names, layer in zip(result.units, heads, result.layers, strict=True)
    ]
    if result.rollout is not None:
        count = len(result.rollout_units)
        layers.append(
            _layer(f"rollout of {count} layer{'s' if count > 1 else ''}", ["all heads"], result.rollout)
        )
    content = {
        "images": _bytes(result.images),
        "places": result.indices,
        "layers": layers,
        "shown": len(result.layers) - 1,
    }
    return Widget("maps", packed_json(content))


def _layer(name: str, heads: list[str], layer: LayerMaps) -> dict[str, Any]:
    own = {"name": name, "heads": heads, "query": layer.query, "highest": layer.highest}
    return {**own, **_bytes(layer.steps)}


def _bytes(values: ByteArray) -> dict[str, Any]:
    """Bytes as base64: the payload is compressed as a whole."""
    return {"shape": values.shape, "bytes": base64.b64encode(values.array.tobytes()).decode()}


def _surface(result: LandscapeResult, height: tuple[float, float] | None = None) -> Widget:
    return Widget("surface", packed(interactive_landscape(result, height=height).to_json()))


def _name(unit: UnitRow) -> str:
    return f"{unit.name} ({unit.kind})"


_SPECTRA = ("fourier_spectrum", "fourier_radial")
_WIDGETS: dict[str, Callable[..., Widget | None]] = {
    "cka": _heat,
    "maps": _maps,
    "landscape_surface": _surface,
    **dict.fromkeys(_SPECTRA, _spectra),
}
