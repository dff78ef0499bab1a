"""Figures: `vs.plots.fourier(result)` draws a result on given or new axes; nothing is computed again.

Every `plot_...` function of `vitscope.findings` is here; the main one of an exam also under the exam's own name.
"""

from typing import Any

from vitscope.core.errors import did_you_mean
from vitscope.drawing import style
from vitscope.drawing.figures import PLOTS, Plot, save_figures
from vitscope.findings import MODULES
from vitscope.plots.landscape_interactive import interactive_landscape
from vitscope.plots.study import plot_study_curves, plot_study_depth, plot_study_numbers
from vitscope.plots.training import plot_monitors, plot_training

_PREFIX = "plot_"
_short: dict[str, Any] = {
    "monitors": plot_monitors,
    "training": plot_training,
    "study_curves": plot_study_curves,
    "study_depth": plot_study_depth,
    "study_numbers": plot_study_numbers,
}
_functions: dict[str, Any] = {f"{_PREFIX}{name}": drawn for name, drawn in _short.items()}
for _module in MODULES:
    _functions |= {
        name: drawn
        for name, drawn in vars(_module).items()
        if name.startswith(_PREFIX) and drawn.__module__ == _module.__name__
    }
_short |= {exam: _functions[_PREFIX + exam] for exam in PLOTS}

__all__ = [
    "PLOTS",
    "Plot",
    "interactive_landscape",
    "save_figures",
    "style",
    *sorted(_functions),
    *sorted(_short),
]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"no figure '{name}'; {did_you_mean(name, sorted(_short))}")


globals().update(_functions | _short)  # `training` is a function here, as well as a file
