"""Numbers as people read them: rounded, with their interval, shares in per cent."""

import math
import re
from typing import Any

import pandas as pd

SHARES = frozenset(
    "accuracy top5 confidence ece signed_ece adaptive_ece drop scaled_confidence scaled_ece ece_change".split()
)


# How the quantities of whole models are called on a page, word by word.
_WORDS = {
    **{word: word.upper() for word in ("nll", "ece", "nep", "ape", "cka")},
    "top5": "top-5",
    "mc": "MC",
    "brier": "Brier score",
    "std": "standard deviation",
    "products": "Hessian-vector products",
    "theta": "angle in radians",
}


def spoken(name: str) -> str:
    """A quantity in words: `centre_nll` is "centre NLL"."""
    return re.sub(r"[a-z0-9]+", lambda word: _WORDS.get(word[0], word[0]), name.replace("_", " "))


def label(exam: str, row: Any) -> str:
    """What a number that belongs to no single unit is called; the changes of a kind need more than their name."""
    condition = getattr(row, "condition", None)  # of exams that show the same images in several ways
    if isinstance(condition, str):
        return f"{row.quantity}, {condition}"
    quantity, kind = str(row.quantity), getattr(row, "kind", None)
    if pd.isna(kind) or not (quantity == "change" or quantity.endswith("_change")):
        return quantity
    units = f"{kind.upper()}s" if kind in ("msa", "mlp") else f"{kind} units"
    return f"{exam}: mean {quantity.replace('_', ' ')} across {units}"


def is_share(quantity: str) -> bool:
    """Whether a quantity is read in per cent."""
    return quantity in SHARES or quantity.endswith(" accuracy") or quantity.startswith("drop ")


def with_interval(row: Any) -> str:
    """`value [low, high]` of a row of a result's table."""
    scale, digits, unit = (100.0, ".1f", " %") if is_share(str(row.quantity)) else (1.0, ".3g", "")
    if str(row.quantity).startswith("drop") or row.quantity == "ece_change":  # differences of shares
        unit = " points"
    text = f"{scale * row.value:{digits}}{unit}"
    if math.isnan(row.low):
        return text
    return f"{text} [{scale * row.low:{digits}}, {scale * row.high:{digits}}]"


def unbroken(text: str) -> str:
    """A number as it is to stand in a narrow column: at most its interval goes to another line."""
    return text.replace(", ", ",\u00a0").replace(" %", "\u00a0%").replace(" points", "\u00a0points")


def plain(value: Any) -> str:
    """A cell of a table of all numbers."""
    if pd.isna(value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
