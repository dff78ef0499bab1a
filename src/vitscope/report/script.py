"""The page's own script: its parts, in the order in which they need one another, in one scope."""

from functools import cache
from importlib.resources import files

PARTS = ("base", "tables", "heat", "series", "maps", "surface", "start")


@cache
def page_script() -> str:
    """The text of the script; it leaves no name behind in the page."""
    folder = files("vitscope.report").joinpath("templates/scripts")
    parts = [folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in PARTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"
