"""Figures as parts of a page: SVG that takes the page's text colour and font, without clashing ids."""

import re
from collections.abc import Sequence

from markupsafe import Markup, escape
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from vitscope.drawing.figures import render
from vitscope.drawing.style import INK

_LONG = re.compile(r"-?\d+\.\d{3,}")
_QUOTED = re.compile(r'\b(style|d)="[^"]*"')
_SPACES = {"style": re.compile(r"([:;]) +"), "d": re.compile(r" *([MLHVCSQTAZ]) *", re.IGNORECASE)}


def inline_svg(ax: Axes, label: str, series: Sequence[Artist] = ()) -> Markup:
    """The figure of `ax` as an `<svg>` element that a screen reader calls `label`.

    Draw inside `styled(**{"svg.hashsalt": ...})` with another salt for each figure of a page; it keeps the
    ids that clip paths and markers are found by apart. The elements of `series` get the attribute `data-series` with
    their number, for the page's script to find them.
    """
    drawing = ax.get_figure()
    assert isinstance(drawing, Figure)
    for number, artist in enumerate(series):
        artist.set_gid(f"series-{number}")
    for mesh in drawing.findobj(QuadMesh):  # the steps of a colour bar: one small picture, not 256 paths
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
