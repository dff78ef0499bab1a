"""Modules that run more than once in a pass: units that share one cannot be changed one by one."""

from collections import Counter

from vitscope.anatomy.structure.dissect import Dissection
from vitscope.anatomy.structure.residual import HEAVY
from vitscope.anatomy.structure.unit import Unit


def why_shared(body: Dissection, unit: Unit) -> str | None:
    """Why nothing can be put into a unit alone: its module runs several times in a pass; None where it does not."""
    counts = Counter(call.path for call in body.graph.calls)
    work = _work(body, unit)
    around = [c for c in body.graph.calls if c.path and any(c.begin <= i < c.end for i in work)]
    repeated = list(dict.fromkeys(call.path for call in around if counts[call.path] > 1))  # innermost first
    if not repeated:
        return None
    module, outermost = unit.module if unit.module in repeated else repeated[0], repeated[-1]
    alike = [u for u in body.parts if u.module == unit.module and u.kind == unit.kind]
    units = alike if len(alike) > 1 else [u for u in body.parts if _runs_in(body, u, module)]
    named = ", ".join(f"'{u.name}'" for u in units)
    return (
        f"the module '{module}' of unit '{unit.name}' ({unit.kind}) runs {_times(counts[module])} in a pass (units "
        f"{named}), and what is put into it acts every time; give each its own copy "
        f"(copy.deepcopy of '{outermost}')"
    )


def _work(body: Dissection, unit: Unit) -> list[int]:
    return [i for i in body.segment(unit).nodes if body.graph[i].name in HEAVY]


def _runs_in(body: Dissection, unit: Unit, path: str) -> bool:
    """Whether a unit's work is done in a call of the module, or the module's in the unit."""
    calls = [call for call in body.graph.calls if call.path == path]
    return any(call.begin <= i < call.end for call in calls for i in _work(body, unit))


def _times(number: int) -> str:
    return "twice" if number == 2 else f"{number} times"
