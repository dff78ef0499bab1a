"""A number of one trained model by its name, as comparisons write it: `LABEL.QUANTITY[column=value,...]`.

    prediction.accuracy                        a row of the exam's table that belongs to the whole model
    fourier.change[kind=msa]                   the one whose column `kind` says msa
    corruption.accuracy[condition=blur 3]      the one under this condition
    attention.entropy                          rows of units: their mean, with the mean of their intervals
    training.train_loss                        what the training itself recorded, of its last epoch
    fourier.late_msa_change                    a named statistic: a function of the results, declared by

    @statistic("fourier.late_msa_change")
    def late_msa_change(results: Mapping[str, Result]) -> tuple[float, float, float] | Measured | None: ...

which finds its exams in `results` by their names, whatever the study labels them.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from vitscope.claims.outputs import ALIKE
from vitscope.core import pd
from vitscope.core.errors import BadArgument, VitscopeError, did_you_mean
from vitscope.findings.hessian import HessianResult
from vitscope.results import Result
from vitscope.results import loss_numbers as spectra
from vitscope.results.over_seeds import Measured, difference
from vitscope.results.paired import Replicated, check_same_images
from vitscope.results.unit_changes import mean_over_units
from vitscope.studies.design import QUANTITY, TRAINING

Results = Mapping[str, Result]
Found = Measured | tuple[float, float, float] | None
Statistic = Callable[[Results], Found]
S = TypeVar("S", bound=Statistic)
T = TypeVar("T")
STATISTICS: dict[str, Statistic] = {}
_WRITTEN = re.compile(r"([\w-]+)\.([^\[\]]+?)(?:\[([^\[\]]+)\])?")


class NotMeasured(VitscopeError):
    """The model has no such number: its exam is not done, or found nothing to measure."""


@dataclass(frozen=True)
class Quantity:
    """The name of a number, taken apart."""

    label: str
    name: str
    where: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def read(text: str) -> Quantity:
        """Take apart `LABEL.QUANTITY[column=value,...]`, as a study writes it."""
        found = _WRITTEN.fullmatch(text.strip())
        pairs = [pair.partition("=") for pair in (found[3] or "").split(",")] if found and found[3] else []
        if not found or any(not equals or not column.strip() for column, equals, _ in pairs):
            raise BadArgument(f"quantity is '{text}'; expected {QUANTITY}")
        return Quantity(
            found[1], found[2], tuple((column.strip(), value.strip()) for column, _, value in pairs)
        )

    def __str__(self) -> str:
        where = ",".join(f"{column}={value}" for column, value in self.where)
        return f"{self.label}.{self.name}{f'[{where}]' if where else ''}"


def statistic(name: str) -> Callable[[S], S]:
    """Declare a function of one model's results as the quantity `EXAM.NAME`; None if it says nothing about a model."""
    Quantity.read(name)

    def register(function: S) -> S:
        STATISTICS[name] = function
        return function

    return register


def measure(quantity: str, results: Results, training: Mapping[str, Any] | None = None) -> Measured:
    """The number of one model.

    Args:
        quantity: Its name.
        results: Of the model, by the study's labels.
        training: What its training recorded (the last row of its metrics, and more), if there is such.

    Raises:
        BadArgument: There is no such quantity; the message says what there is.
        NotMeasured: There is, but not of this model, or not yet.
    """
    asked = Quantity.read(quantity)
    if asked.label == TRAINING:
        return _of_training(asked, training)
    if asked.label not in results:
        raise NotMeasured(f"{asked.label} is not done")
    result = results[asked.label]
    named = STATISTICS.get(f"{result.exam}.{asked.name}")
    if named is None:
        return _of_result(asked, result)
    computed = named({**{one.exam: one for one in results.values()}, **results, result.exam: result})
    if computed is None:
        raise NotMeasured(f"{quantity} is not defined for {result.model}")
    if isinstance(computed, Measured):
        return computed
    value, low, high = map(float, computed)
    return Measured(value, low, high, result.n)


def measure_difference(
    quantity: str,
    first: tuple[Results, Mapping[str, Any] | None],
    second: tuple[Results, Mapping[str, Any] | None],
) -> Measured:
    """The number of one model minus that of another, on the same images where both saw the same.

    Args:
        quantity: The name of the number.
        first: Results and training of the one.
        second: Of the other, which is subtracted.
    """
    ours, theirs = measure(quantity, *first), measure(quantity, *second)
    asked = Quantity.read(quantity)
    a, b = first[0].get(asked.label), second[0].get(asked.label)
    if a is not None and b is not None and not _paired(a, b):
        ours, theirs = (Measured(one.value, one.low, one.high, one.n) for one in (ours, theirs))
    elif isinstance(a, HessianResult) and isinstance(b, HessianResult) and asked.name in spectra.STATISTICS:
        assert ours.drawn is not None
        assert theirs.drawn is not None
        found = spectra.difference(a.eigenvalues, b.eigenvalues, asked.name, a.seed)
        return Measured(*found, ours.n, ours.drawn - theirs.drawn)
    return difference(asked.name, ours, theirs)


def _of_training(asked: Quantity, training: Mapping[str, Any] | None) -> Measured:
    if not training:
        raise NotMeasured("there is no training")
    known = [key for key, value in training.items() if isinstance(value, int | float)]
    if asked.where or asked.name not in known:
        raise BadArgument(f"no quantity '{asked}'; {did_you_mean(asked.name, known)}")
    value = float(training[asked.name])
    names = ("low", "high") if asked.name == "accuracy" else (f"{asked.name}_low", f"{asked.name}_high")
    ends = [training.get(name) for name in names]
    low, high = (math.nan if end is None else float(end) for end in ends)
    return Measured(value, low, high)


def _of_result(asked: Quantity, result: Result) -> Measured:
    for read in (summary_of, _table_of):
        table = read(result)
        rows = table[table["quantity"] == asked.name]
        for column, value in asked.where:
            known = column in rows
            rows = rows[[known and _says(cell, value) for cell in rows[column if known else "quantity"]]]
        if len(rows):
            return _of_rows(asked, result, rows)
    unknown = [column for column, _ in asked.where if column not in table]
    if unknown:
        raise BadArgument(f"'{asked}': {result.exam} has no column '{unknown[0]}'; {_columns(table)}")
    raise BadArgument(f"no quantity '{asked}'; {_offered(asked, result)}")


def _of_rows(asked: Quantity, result: Result, rows: pd.DataFrame) -> Measured:
    whole = rows[rows["unit"].isna()]
    if len(whole) == 1:
        row: Any = next(whole.itertuples())
        n, drawn = replicates_of(result)
        return Measured(float(row.value), float(row.low), float(row.high), n, drawn.get(name_of(row)))
    if len(whole) > 1:
        differing = {c: list(dict.fromkeys(whole[c].dropna())) for c in _own_columns(whole)}
        column, values = next(((c, v) for c, v in differing.items() if len(v) > 1), ("", []))
        raise BadArgument(
            f"'{asked}' stands for {len(whole)} numbers; say which, as in "
            f"{asked.label}.{asked.name}[{column}={values[0] if values else ''}]"
            f" ({column}: {', '.join(map(str, values))})"
        )
    if "head" in rows and "head" not in dict(asked.where):
        rows = rows[rows["head"].isna()]
    known = rows[rows["value"].notna()]
    if known.empty:
        raise NotMeasured(f"{asked} is not defined for {result.model}")
    value, low, high = (known[end].to_numpy() for end in ("value", "low", "high"))
    mean = mean_over_units(value, low, high)
    return Measured(*mean.estimate, result.n)


def _once_each(function: Callable[[Result], T]) -> Callable[[Result], T]:
    """The function, computed once for every result as long as that is there."""
    known: WeakKeyDictionary[Result, T] = WeakKeyDictionary()

    @functools.wraps(function)
    def call(result: Result) -> T:
        if result not in known:
            known[result] = function(result)
        return known[result]

    return call


@_once_each
def summary_of(result: Result) -> pd.DataFrame:
    """The rows that a person looks at first."""
    return result.summary()


@_once_each
def _table_of(result: Result) -> pd.DataFrame:
    return result.table()


@_once_each
def replicates_of(result: Result) -> tuple[int, dict[str, Any]]:
    """What the bootstrap drew from (images, blocks, batches), and the replicates by the names of `name_of`."""
    if isinstance(result, HessianResult):
        drawn: dict[str, Any] = {}
        for name in spectra.STATISTICS:
            drawn[name] = spectra.replicates(result.eigenvalues, name, result.seed)
        return len(result.eigenvalues), drawn
    n = int(getattr(result, "blocks", getattr(result, "pairs", result.n)))
    return n, result.replicates() if isinstance(result, Replicated) else {}


def name_of(row: Any) -> str:
    """What replicates call a row of a table."""
    condition = getattr(row, "condition", None)
    return f"{row.quantity}, {condition}" if isinstance(condition, str) else str(row.quantity)


def _paired(first: Result, second: Result) -> bool:
    """Whether replicate r of both drew the same images; of spectra, the same batches, augmented alike."""
    if isinstance(first, HessianResult) and isinstance(second, HessianResult):
        return all(getattr(first, name) == getattr(second, name) for name in ALIKE)
    try:
        check_same_images(first, second)
    except VitscopeError:
        return False
    return True


def same_images(results: Sequence[Result | None]) -> bool:
    """Whether replicate r of all of them drew the same images; no results have none that could differ."""
    known = [one for one in results if one is not None]
    return all(_paired(known[0], other) for other in known[1:])


def _says(cell: Any, value: str) -> bool:
    if pd.isna(cell):
        return False
    try:
        return float(cell) == float(value)
    except (TypeError, ValueError):
        return str(cell) == value


def _own_columns(rows: pd.DataFrame) -> Iterable[str]:
    return [str(column) for column in rows if column not in ("quantity", "value", "low", "high", "n")]


def _columns(table: pd.DataFrame) -> str:
    return f"there are: {', '.join(_own_columns(table.dropna(axis=1, how='all')))}"


def _offered(asked: Quantity, result: Result) -> str:
    """What the result holds, written as quantities; the nearest of them."""
    names = list(dict.fromkeys([*summary_of(result)["quantity"], *_table_of(result)["quantity"]]))
    names += [name.partition(".")[2] for name in STATISTICS if name.startswith(f"{result.exam}.")]
    if asked.name not in names:
        return did_you_mean(asked.name, names)
    table = _table_of(result)
    rows = table[table["quantity"] == asked.name]
    column, value = asked.where[0]
    return f"{column} is not {value} but one of: {', '.join(map(str, dict.fromkeys(rows[column].dropna())))}"
