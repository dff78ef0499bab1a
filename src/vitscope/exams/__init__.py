"""Exams: one measurement of a model each, as `vs.exams.fourier(model, data)`.

A file in one of the rooms is an exam, under the name that a user types; importing it registers it. A file put there is
found by itself; its result (`vitscope.findings`) says where it stands in tables and pages.
"""

import importlib
import pkgutil
from typing import Any

from vitscope.core.errors import did_you_mean
from vitscope.engine.choose_exams import find_exams
from vitscope.engine.diagnose import diagnose
from vitscope.engine.exam import EXAMS, Accumulator, Batch, Procedure, Subject, procedure
from vitscope.engine.one_pass import examine
from vitscope.findings import result_types

_files = {
    found.name.rpartition(".")[2]: importlib.import_module(found.name)
    for found in pkgutil.walk_packages(__path__, f"{__name__}.")
    if not found.ispkg
}
_functions: dict[str, Any] = {name: getattr(_files[name], name) for name in result_types() if name in _files}
_order = list(result_types())
for _name in sorted(EXAMS, key=_order.index):
    EXAMS[_name] = EXAMS.pop(_name)
log_log_slope = _files["hessian_training"].log_log_slope
globals().update(_functions)  # `attention` and `prediction` are functions here, as well as rooms

__all__ = [
    "EXAMS",
    "Accumulator",
    "Batch",
    "Procedure",
    "Subject",
    "diagnose",
    "examine",
    "find_exams",
    "procedure",
    "log_log_slope",
    *_functions,
]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"no exam '{name}'; {did_you_mean(name, _functions)}")
