"""Figures as parts of a page: SVG that takes the page's text colour and font, without clashing ids.

Data inside a page: compressed text as base64, which no name or number in it can break out of.

The page's script turns it back with the browser's own DecompressionStream.

The page's own script: its parts, in the order in which they need one another, in one scope.

Styles that the figures of a page share: each is written once, under a class, not on every line and tick.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from vitscope.drawing import mpl
from vitscope.drawing.figures import render
from vitscope.drawing.style import INK

_LONG = re.compile(r"-?\d+\.\d{3,}")
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
    for mesh in drawing.findobj(mpl.QuadMesh):  # the steps of a colour bar: one small picture, not 256 paths
        mesh.set_rasterized(True)
    text = render(ax, "svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' id="series-(\d+)"', r' data-series="\1"', text)
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", text)
    text = re.sub(r"<[^>]+>", lambda m: _shorter(m[0]), text)
    text = re.sub(r">\s+<", "><", text).replace(INK, "currentColor")
    opening = re.match(r"<svg[^>]*>", text)
    assert opening is not None
    box = re.search(r'viewBox="[^"]*"', opening[0])
    assert box is not None
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {names} {box[0]} role="img" aria-label="{escape(label)}">'
    return Markup(head + text[opening.end() :].strip())


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


PARTS = ("base", "tables", "heat", "series", "maps", "surface", "start")


@cache
def page_script() -> str:
    """The text of the script; it leaves no name behind in the page."""
    folder = files("vitscope.report").joinpath("templates/scripts")
    parts = [folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in PARTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


_TAG = re.compile(r"<[^>]+>")
_STYLE = re.compile(r' style="([^"]*)"')
_PLAIN = re.compile(r"[\w\s:;#.,%()'-]+")  # what cannot end a style sheet


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
