"""What a measurement leaves behind: results, run folders, provenance."""

from vitscope.results.atomic import atomic_path, atomic_write
from vitscope.results.provenance import provenance
from vitscope.results.result import About, Result
from vitscope.results.run import Run
from vitscope.results.table import UnitRow, column, directions, tidy, tidy_columns

__all__ = [
    "About",
    "Result",
    "Run",
    "UnitRow",
    "atomic_path",
    "atomic_write",
    "column",
    "directions",
    "provenance",
    "tidy",
    "tidy_columns",
]
