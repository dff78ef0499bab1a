"""Numbers as people read them: rounded, with their interval, shares in per cent."""

import math
from typing import Any

import pandas as pd

SHARES = frozenset(
    "accuracy top5 confidence ece signed_ece adaptive_ece drop scaled_confidence scaled_ece ece_change".split()
)


def label(exam: str, row: Any) -> str:
    """What a number that belongs to no single unit is called; the changes of a kind need more than their name."""
    condition = getattr(row, "condition", None)  # of exams that show the same images in several ways
    if isinstance(condition, str):
        return f"{row.quantity}, {condition}"
    if row.quantity != "change" or pd.isna(row.kind):
        return str(row.quantity)
    kind = f"{row.kind.upper()}s" if row.kind in ("msa", "mlp") else f"{row.kind} units"
    return f"{exam}: mean change across {kind}"


def is_share(quantity: str) -> bool:
    """Whether a quantity is read in per cent."""
    return quantity in SHARES or quantity.endswith(" accuracy") or quantity.startswith("drop ")


def with_interval(row: Any) -> str:
    """`value [low, high]` of a row of a result's table."""
    scale, digits, unit = (100.0, ".1f", " %") if is_share(str(row.quantity)) else (1.0, ".3g", "")
    text = f"{scale * row.value:{digits}}{unit}"
    if math.isnan(row.low):
        return text
    return f"{text} [{scale * row.low:{digits}}, {scale * row.high:{digits}}]"


def plain(value: Any) -> str:
    """A cell of a table of all numbers."""
    if pd.isna(value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
