"""pandas, imported when something of it is used: `from vitscope.core import pd`.

Results become tables at the end; a command that begins to compute does not wait for it. A file that writes
`pd.DataFrame` beside an argument begins with `from __future__ import annotations`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import pandas

    return getattr(pandas, name)
