from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vitscope.core.errors import BadResult
from vitscope.plots import plot_monitors


def write(folder: Path) -> Path:
    rows = [
        {"epoch": e, "exam": "variance", "unit": u, "depth": d, "quantity": "variance", "value": e + d}
        for e in (0, 2, 4)
        for u, d in (("a", 0.0), ("b", 1.0))
    ]
    rows += [
        {"epoch": e, "exam": "hessian", "quantity": "eigenvalue", "value": 10.0 - e, "converged": e != 2}
        for e in (0, 2, 4)
    ]
    pd.DataFrame(rows).assign(low=np.nan, high=np.nan).to_csv(folder / "monitors.csv", index=False)
    return folder


def test_a_line_per_unit_holds_its_values(tmp_path: Path) -> None:
    ax = plot_monitors(write(tmp_path), "variance")
    lines = [line.get_xydata().tolist() for line in ax.lines]  # type: ignore[union-attr]
    assert lines == [[[0, 0], [2, 2], [4, 4]], [[0, 1], [2, 3], [4, 5]]]
    assert ax.get_ylabel() == "variance: variance"


def test_what_has_not_converged_is_hollow(tmp_path: Path) -> None:
    ax = plot_monitors(write(tmp_path), "hessian")
    line, good, bad = ax.lines
    assert line.get_ydata().tolist() == [10, 8, 6]  # type: ignore[union-attr]
    assert good.get_xdata().tolist() == [0, 4]  # type: ignore[union-attr]
    assert bad.get_xdata().tolist() == [2]  # type: ignore[union-attr]
    assert bad.get_markerfacecolor() == "none"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match=r"no monitors.csv; train with: --monitor fourier"):
        plot_monitors(tmp_path, "fourier")
    write(tmp_path)
    with pytest.raises(BadResult, match="was not watched by 'fourier'; it was by: variance, hessian"):
        plot_monitors(tmp_path, "fourier")
    with pytest.raises(BadResult, match="has no 'trace'; it has: eigenvalue"):
        plot_monitors(tmp_path, "hessian", "trace")
