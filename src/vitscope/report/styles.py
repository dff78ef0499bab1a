"""Styles that the figures of a page share: each is written once, under a class, not on every line and tick."""

import re

from markupsafe import Markup

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
