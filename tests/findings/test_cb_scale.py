from pathlib import Path

import numpy as np

from vitscope import plots
from vitscope.drawing.figures import new_panel, save_figures
from vitscope.findings.cb_scale import CbScaleResult
from vitscope.results import UnitRow


def result(count: int) -> CbScaleResult:
    value = np.stack([np.linspace(0.1, 0.3, 3), np.linspace(0.2, 0.5, 3)], 1)[:count]
    return CbScaleResult(
        model="m",
        data="d",
        n=0,
        seed=0,
        units=tuple(UnitRow(f"{i}.mlp", "mlp", 0, i / 2) for i in range(count)),
        module=tuple(f"{i}.mlp.context_broadcast" for i in range(count)),
        channels=np.full(count, 8),
        value=value,
        low=value - 0.01,
        high=value + 0.01,
    )


def test_mean_and_ratio_against_depth() -> None:
    for column, draw in enumerate((plots.plot_cb_scale, plots.plot_cb_scale_ratio)):
        line = draw(result(3), new_panel()).lines[0]
        np.testing.assert_array_equal(line.get_ydata(), result(3).value[:, column])
        np.testing.assert_array_equal(line.get_xdata(), [0.0, 0.5, 1.0])


def test_a_model_without_one_says_so() -> None:
    assert plots.plot_cb_scale(result(0), new_panel()).texts[0].get_text() == "no CB_S in this model"


def test_no_file_is_made_of_nothing(tmp_path: Path) -> None:
    """And one of an earlier result goes."""
    assert len(save_figures(result(3), tmp_path)) == len(list(tmp_path.iterdir())) == 4
    assert save_figures(result(0), tmp_path) == list(tmp_path.iterdir()) == []
