"""Figures and data as parts of a page.

A figure is SVG that takes the page's text colour and font, without clashing ids; styles that figures share are written
once, under a class. Data is compressed text as base64, which no name or number in it can break out of, and which the
page's script turns back with the browser's own DecompressionStream. The script adds to figures: names and values of
the cells of a heat map, lines that can be picked out, attention maps by image and head, a surface that can be turned,
points of models by any two numbers; tables of models can be sorted.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from vitscope.drawing import mpl
from vitscope.drawing.figures import render
from vitscope.drawing.style import INK
from vitscope.findings.cka import CkaResult
from vitscope.findings.fourier import FourierResult
from vitscope.findings.landscape import LandscapeResult
from vitscope.findings.maps import LayerMaps, MapsResult
from vitscope.plots.landscape_interactive import interactive_landscape
from vitscope.results import Result
from vitscope.results.codec import ByteArray

PARTS = (
    "base",
    "tables",
    "sorting",
    "heat",
    "series",
    "maps",
    "surface",
    "scatter",
    "start",
)  # of the script, as they need one another
_LONG = re.compile(r"-?\d+\.\d{3,}")
_TAG = re.compile(r"<[^>]+>")
_STYLE = re.compile(r' style="([^"]*)"')
_PLAIN = re.compile(r"[\w\s:;#.,%()'-]+")  # what cannot end a style sheet
_QUOTED = re.compile(r'\b(style|d)="[^"]*"')
_SPACES = {"style": re.compile(r"([:;]) +"), "d": re.compile(r" *([MLHVCSQTAZ]) *", re.IGNORECASE)}


def inline_svg(ax: mpl.Axes, label: str, series: Sequence[mpl.Artist] = ()) -> Markup:
    """The figure of `ax` as an `<svg>` element that a screen reader calls `label`.

    Draw inside `styled(**{"svg.hashsalt": ...})` with another salt for each figure of a page; it keeps the
    ids that clip paths and markers are found by apart. The elements of `series` get the attribute `data-series` with
    their number, for the page's script to find them.
    """
    drawing = ax.get_figure()
    assert isinstance(drawing, mpl.Figure)
    for number, artist in enumerate(series):
        artist.set_gid(f"series-{number}")
    for part in (part for axes in drawing.axes for part in axes.collections):
        if isinstance(part, mpl.QuadMesh):  # the steps of a colour bar: one small picture, not 256 paths
            part.set_rasterized(True)
    text = render(ax, "svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' id="series-(\d+)"', r' data-series="\1"', text)
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", text)
    text = _TAG.sub(lambda m: _shorter(m[0]), text)
    text = re.sub(r">\s+<", "><", text).replace(INK, "currentColor")
    opening, _, inside = text.partition(">")
    box = re.findall(r'viewBox="[^"]*"', opening)
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {names} {box[0]} role="img" aria-label="{escape(label)}">'
    return Markup(head + inside.strip())


def _shorter(tag: str) -> str:
    """A tag on a single line, without needless spaces, with two decimals: a thirtieth of what an eye can tell."""
    if tag.startswith("<image"):
        return tag.replace("\n", "")  # the picture in it is base64
    tag = _LONG.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag).replace("\n", " ")
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    return _QUOTED.sub(lambda m: _SPACES[m[1]].sub(r"\1", m[0]).replace(' "', '"'), tag)


def packed(text: str) -> str:
    """Base64 of the gzip of a text; the same text gives the same result."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def packed_json(value: Any) -> str:
    """`value` as packed JSON; numpy arrays as nested lists, what is not finite as null."""
    return packed(json.dumps(_plain(value), allow_nan=False, separators=(",", ":")))


@cache
def plotly_script() -> str:
    """The text of plotly's script, which draws surfaces that can be turned."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value


@cache
def page_script() -> str:
    """The text of the script; it leaves no name behind in the page."""
    folder = files("vitscope.report").joinpath("templates/scripts")
    parts = [folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in PARTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


class SharedStyles:
    """Collects the style attributes of figures; `css` is the sheet that belongs to them."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}

    def share(self, svg: Markup) -> Markup:
        """The figure with classes in the place of its style attributes."""
        return Markup(_TAG.sub(lambda tag: _STYLE.sub(self._named, tag[0]), svg))

    @property
    def css(self) -> Markup:
        """A rule for each class."""
        return Markup("\n".join(f".{name}{{{style}}}" for style, name in self._classes.items()))

    def _named(self, found: re.Match[str]) -> str:
        if not _PLAIN.fullmatch(found[1]):
            return found[0]
        name = self._classes.setdefault(found[1], f"v{len(self._classes)}")
        return f' class="{name}"'


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
    names = [[f"{unit.name} ({unit.kind})" for unit in units] for units in (result.units, result.other_units)]
    content = {
        "rows": names[0],
        "columns": names[1],
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
        _layer(unit.name, [f"head {head}" for head in range(layer.heads)], layer)
        for unit, layer in zip(result.units, result.layers, strict=True)
    ]
    if result.rollout is not None:
        count = len(result.rollout_units)
        name = f"rollout of {count} layer{'s' if count > 1 else ''}"
        layers.append(_layer(name, ["all heads"], result.rollout))
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


_SPECTRA = ("fourier_spectrum", "fourier_radial")
_WIDGETS: dict[str, Callable[..., Widget | None]] = {
    "cka": _heat,
    "maps": _maps,
    "landscape_surface": _surface,
    **dict.fromkeys(_SPECTRA, _spectra),
}
