"""matplotlib, imported when something of it is used: `from vitscope.drawing import mpl`.

Figures are drawn at the end, if at all; a command that begins to compute does not wait for it. A file that writes
`mpl.Axes` beside an argument begins with `from __future__ import annotations`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitscope.drawing.matplotlib_names import *  # noqa: F403


def __getattr__(name: str) -> Any:
    from vitscope.drawing import matplotlib_names

    return getattr(matplotlib_names, name)
