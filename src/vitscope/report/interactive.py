"""Figures that answer to a pointer: what the page's script has to know about them.

Every one is a static figure first. The script adds to it: names and values of the cells of a heat map, lines that can
be picked out, attention maps by image and head, a surface that can be turned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from vitscope.exams.cka import CkaResult
from vitscope.exams.fourier import FourierResult
from vitscope.exams.key_maps import normalised
from vitscope.exams.landscape_result import LandscapeResult
from vitscope.exams.maps import MapsResult
from vitscope.plots.landscape_interactive import interactive_landscape
from vitscope.report.packed import packed, packed_json
from vitscope.results import Result, UnitRow


@dataclass(frozen=True)
class Widget:
    """What a figure can do: `kind` names a function of the page's script, `payload` is what it is given."""

    kind: str
    payload: str  # packed JSON


def widget(plot: str, result: Result) -> Widget | None:
    """The widget of a figure, by the figure's name."""
    make = _WIDGETS.get(plot)
    return make(result) if make else None


def series(plot: str, ax: Axes) -> list[Artist]:
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
    layers = [
        {
            "name": result.units[0].name,
            "heads": [f"head {head}" for head in range(result.maps.shape[1])],
            "maps": _bytes(result.maps),
            "highest": result.maps.max((2, 3)),
        }
    ]
    if result.rollout_units:
        rolled = result.rollout[:, None]
        layers.append(
            {
                "name": f"rollout of {len(result.rollout_units)} layers",
                "heads": ["all heads"],
                "maps": _bytes(rolled),
                "highest": rolled.max((2, 3)),
            }
        )
    content = {"images": result.images, "places": result.indices, "layers": layers}
    return Widget("maps", packed_json(content))


def _surface(result: LandscapeResult) -> Widget:
    return Widget("surface", packed(interactive_landscape(result).to_json()))


def _bytes(maps: Any) -> Any:
    """Maps (images, heads, H, W) from their own least (0) to their own largest value (255)."""
    return (normalised(maps.reshape(-1, *maps.shape[2:])) * 255).round().astype(int).reshape(maps.shape)


def _name(unit: UnitRow) -> str:
    return f"{unit.name} ({unit.kind})"


_SPECTRA = ("fourier_spectrum", "fourier_radial")
_WIDGETS: dict[str, Callable[[Any], Widget | None]] = {
    "cka": _heat,
    "maps": _maps,
    "landscape_surface": _surface,
    **dict.fromkeys(_SPECTRA, _spectra),
}
