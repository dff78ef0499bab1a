"""Numbers as people read them: rounded, with their interval, shares in per cent; rows of tables by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Literal

from vitscope.core import pd

SHARES = frozenset(
    "accuracy top5 miou confidence ece signed_ece adaptive_ece drop scaled_confidence scaled_ece ece_change "
    "box_ap box_ap50 box_ap75 box_ap_small box_ap_medium box_ap_large "
    "mask_ap mask_ap50 mask_ap75 mask_ap_small mask_ap_medium mask_ap_large iou precision recall share".split()
)

# Shares as well, which are read as they are: from 0 to 1.
_PLAIN_SHARES = frozenset(
    "nep consistency prefix diagonal shape_bias neither outliers outlier_images border model_share waiting".split()
) | {"label consistency"}

# How the quantities of whole models are called on a page, word by word.
_WORDS = {
    **{word: word.upper() for word in ("nll", "ece", "nep", "ape", "cka", "ap", "ap50", "ap75")},
    "top5": "top-5",
    "miou": "mIoU",
    "iou": "IoU",
    "mc": "MC",
    "brier": "Brier score",
    "std": "standard deviation",
    "products": "Hessian-vector products",
    "theta": "angle in radians",
}

_TOLD = {"throughput": "throughput relative to one pass"}


def spoken(name: str) -> str:
    """A quantity in words: `centre_nll` is "centre NLL"."""
    return re.sub(r"[a-z0-9]+", lambda word: _WORDS.get(word[0], word[0]), name.replace("_", " "))


def capital(text: str) -> str:
    """The text with a large first letter, unless its first word is a name with letters of its own, such as mIoU."""
    first = text.split(" ", 1)[0]
    return text if first != first.lower() else text[:1].upper() + text[1:]


def label(exam: str, row: Any) -> str:
    """What a number that belongs to no single unit is called; the changes of a kind need more than their name."""
    condition = getattr(row, "condition", None)  # of exams that show the same images in several ways
    if isinstance(condition, str):
        return f"{_TOLD.get(row.quantity, row.quantity)}, {condition}"
    quantity, kind = str(row.quantity), getattr(row, "kind", None)
    if pd.isna(kind) or not (quantity == "change" or quantity.endswith("_change")):
        return quantity
    units = f"{kind.upper()}s" if kind in ("msa", "mlp") else f"{kind} units"
    return f"{exam}: mean {quantity.replace('_', ' ')} across {units}"


def is_share(quantity: str) -> bool:
    """Whether a quantity is read in per cent."""
    return quantity in SHARES or quantity.endswith(" accuracy") or quantity.startswith("drop ")


def is_difference(quantity: str) -> bool:
    """Whether a quantity of one model is itself the difference of two shares."""
    return quantity.startswith(("signed_ece", "drop", "ece_change"))


def lies_in_0_to_1(quantity: str) -> bool:
    """Whether a quantity of one model can not be below 0 or above 1."""
    return (is_share(quantity) and not is_difference(quantity)) or quantity in _PLAIN_SHARES


def scale_of(quantity: str, difference: bool = False) -> tuple[float, str]:
    """What numbers of a quantity are multiplied by, and their unit: of shares per cent, of their differences points.

    `difference`: the numbers are of one model minus those of another.
    """
    if not is_share(quantity):
        return 1.0, ""
    return 100.0, "points" if difference or is_difference(quantity) else "%"


def with_interval(row: Any, difference: bool = False) -> str:
    """`value [low, high]` of a row of a result's table; `difference`: of model minus model, with its sign."""
    return in_unit(row, *scale_of(str(row.quantity), difference), signed=difference)


def in_unit(row: Any, scale: float, unit: str, signed: bool = False, decimals: int = 1) -> str:
    """`value [low, high]` times `scale`; with so many `decimals` if it has a unit, else with three digits."""
    digits = f"{'+' if signed else ''}{f'.{decimals}f' if unit else '.3g'}"
    value, low, high = (f"{scale * number:{digits}}" for number in (row.value, row.low, row.high))
    interval = "" if math.isnan(row.low) else f" [{low}, {high}]"
    return f"{value}{f' {unit}' if unit else ''}{interval}"


def unbroken(text: str) -> str:
    """A number as it is to stand in a narrow column: at most its interval goes to another line."""
    return text.replace(", ", ",\u00a0").replace(" %", "\u00a0%").replace(" points", "\u00a0points")


Duration = Literal["short", "words", "cell", "exact"]
_HOUR, _MINUTE = 3600, 60
# from how many seconds on, the unit, how it is written
_DURATIONS: dict[Duration, tuple[tuple[float, int, str], ...]] = {
    "short": (
        (6000, _HOUR, "{:.1f} h"),
        (100, _MINUTE, "{:.0f} min"),
        (10, 1, "{:.0f} s"),
        (-math.inf, 1, "{:.1f} s"),
    ),
    "words": ((2 * _HOUR, _HOUR, "{:.1f} hours"), (-math.inf, _MINUTE, "{:.0f} minutes")),
    "cell": (
        (2 * _HOUR, _HOUR, "{:.1f} h"),
        (_MINUTE, _MINUTE, "{:.1f} min"),
        (-math.inf, 1, "{:.0f} s"),
    ),
}


def duration(seconds: float, style: Duration = "short") -> str:
    """A time as people say it: 12 min; in words 12 minutes, in a cell of a table 11.7 min, exactly 11 min 42 s."""
    if math.isnan(seconds):
        return "–"
    if style == "exact":
        hours, rest = divmod(round(seconds), _HOUR)
        return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
    size, form = next((size, form) for least, size, form in _DURATIONS[style] if seconds >= least)
    return form.format(seconds / size)


def plain(value: Any) -> str:
    """A cell of a table of all numbers."""
    if pd.isna(value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


READINGS: dict[str, Callable[[Any], str]] = {}
_PLURAL = {"msa": "MSAs", "mlp": "MLPs", "conv": "Convs", "mixer": "mixers", "subsample": "subsampling units"}


def reads(*exams: str) -> Callable[[Callable[[Any], str]], Callable[[Any], str]]:
    """Register a function as the reading of exams."""

    def register(function: Callable[[Any], str]) -> Callable[[Any], str]:
        READINGS.update(dict.fromkeys(exams, function))
        return function

    return register


def plural(kind: str) -> str:
    """Units of a kind."""
    return _PLURAL.get(kind, f"{kind} units")


def rows_of(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """The known rows of one quantity, in order."""
    return table[(table["quantity"] == quantity) & table["value"].notna()]


def by_name(table: pd.DataFrame) -> dict[str, Any]:
    """Rows of whole models by quantity, or by `quantity, condition` where there are conditions; the first of each."""
    found: dict[str, Any] = {}
    for row in table[table["unit"].isna()].itertuples():
        condition = getattr(row, "condition", None)
        name = f"{row.quantity}, {condition}" if isinstance(condition, str) else str(row.quantity)
        found.setdefault(name, row)
    return found


def extremes(rows: pd.DataFrame) -> tuple[Any, Any]:
    """The rows with the least and the largest value."""
    ordered = list(rows.sort_values("value", kind="stable").itertuples())
    return ordered[0], ordered[-1]
