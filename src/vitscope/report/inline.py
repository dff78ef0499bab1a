"""Figures as parts of a page: SVG that takes the page's text colour and font, without clashing ids."""

import re

from markupsafe import Markup, escape
from matplotlib.axes import Axes

from vitscope.plots.figures import render
from vitscope.plots.style import INK


def inline_svg(ax: Axes, label: str) -> Markup:
    """The figure of `ax` as an `<svg>` element that a screen reader calls `label`.

    Draw inside `styled(**{"svg.hashsalt": ...})` with another salt for each figure of a page; it keeps the
    ids that clip paths and markers are found by apart.
    """
    text = render(ax, "svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", text)
    text = text.replace(INK, "currentColor")
    opening = re.match(r"<svg[^>]*>", text)
    assert opening is not None
    box = re.search(r'viewBox="[^"]*"', opening[0])
    assert box is not None
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {names} {box[0]} role="img" aria-label="{escape(label)}">'
    return Markup(head + text[opening.end() :].strip())
