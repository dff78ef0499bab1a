"""Data inside a page: compressed text as base64, which no name or number in it can break out of.

The page's script turns it back with the browser's own DecompressionStream.
"""

import base64
import gzip
import json
from functools import cache
from typing import Any

import numpy as np


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
