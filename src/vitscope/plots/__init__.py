"""Figures: `vs.plots.fourier(result)` draws a result on given or new axes; nothing is computed again.

Every `plot_...` function of `vitscope.findings` is here; the main one of an exam also under the exam's own name. Their
arguments are looked at before anything is drawn.
"""

from collections.abc import Callable
from typing import Any

from vitscope.core.arguments import checked
from vitscope.core.errors import did_you_mean
from vitscope.drawing import style
from vitscope.drawing.figures import PLOTS, Plot, save_figures
from vitscope.findings import MODULES
from vitscope.plots.landscape_interactive import interactive_landscape
from vitscope.plots.study import plot_study_curves, plot_study_depth, plot_study_numbers
from vitscope.plots.training import plot_monitors, plot_training

_PREFIX = "plot_"
_of_exams: dict[str, Callable[..., Any]] = {
    name: drawn
    for module in MODULES
    for name, drawn in vars(module).items()
    if name.startswith(_PREFIX) and drawn.__module__ == module.__name__
}
monitors, training = plot_monitors, plot_training  # `training` is a function here, as well as a file
study_curves, study_depth, study_numbers = plot_study_curves, plot_study_depth, plot_study_numbers
_others = ["monitors", "study_curves", "study_depth", "study_numbers", "training"]
_short = sorted([*PLOTS, *_others])

__all__ = [
    "PLOTS",
    "Plot",
    "interactive_landscape",
    "save_figures",
    "style",
    *sorted([*_of_exams, *(_PREFIX + name for name in _others)]),
    *_short,
]


def __getattr__(name: str) -> Any:
    full = _PREFIX + name if name in PLOTS else name
    if full not in _of_exams:
        raise AttributeError(f"no figure '{name}'; {did_you_mean(name, _short)}")
    looked_at = globals()[full] = checked(_of_exams[full])
    if (exam := full.removeprefix(_PREFIX)) in PLOTS:
        globals()[exam] = looked_at
    return looked_at
