"""The curve shows what metrics.csv holds, and only that."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

from vitscope import plots
from vitscope.core.errors import BadResult
from vitscope.drawing.figures import new_panel
from vitscope.training.log import Metrics

ROWS = [
    {"epoch": 1, "train_loss": 2.2, "nll": 2.0, "accuracy": 0.30, "low": 0.28, "high": 0.32},
    {"epoch": 2, "train_loss": 2.0, "nll": 1.6, "accuracy": 0.45, "low": 0.43, "high": 0.47},
    {"epoch": 3, "train_loss": 1.9, "nll": 1.3, "accuracy": 0.55, "low": 0.53, "high": 0.57},
]


def test_lines_and_band_are_the_rows(tmp_path: Path) -> None:
    Metrics(tmp_path, ROWS)
    ax = plots.plot_training(tmp_path, new_panel())
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    right = next(other for other in figure.axes if other is not ax)
    drawn = {str(line.get_label()): line.get_ydata() for line in [*ax.lines, *right.lines]}
    np.testing.assert_allclose(drawn["training loss (augmented)"], [2.2, 2.0, 1.9])
    np.testing.assert_allclose(drawn["held-out loss"], [2.0, 1.6, 1.3])
    np.testing.assert_allclose(drawn["held-out accuracy (95 %)"], [0.30, 0.45, 0.55])
    band = next(c for c in right.collections if isinstance(c, PolyCollection))
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.28, 0.57))
    assert ax.get_legend() is not None


def test_the_score_of_the_task_is_drawn(tmp_path: Path) -> None:
    own = [{"miou": v, "miou_low": v - 0.1, "miou_high": v + 0.1} for v in (0.2, 0.3, 0.4)]
    more = ("miou", "miou_low", "miou_high")
    Metrics(tmp_path, [{**row, **score} for row, score in zip(ROWS, own, strict=True)], more)
    ax = plots.plot_training(tmp_path, new_panel())
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    right = next(other for other in figure.axes if other is not ax)
    drawn = {str(line.get_label()): line.get_ydata() for line in [*ax.lines, *right.lines]}
    np.testing.assert_allclose(drawn["held-out mIoU (95 %)"], [0.2, 0.3, 0.4])
    assert right.get_ylabel() == "mIoU"
    assert ax.get_ylabel() == "Loss (nats)"


def test_one_epoch_has_an_interval_too(tmp_path: Path) -> None:
    own = {"box_ap": 0.2, "box_ap_low": 0.1, "box_ap_high": 0.4}
    Metrics(tmp_path, [{**ROWS[0], **own, "nll": math.nan}], tuple(own))
    ax = plots.plot_training(tmp_path, new_panel())
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    right = next(other for other in figure.axes if other is not ax)
    assert [line.get_label() for line in right.lines] == ["held-out box AP (95 %)"]
    assert ax.get_ylabel() == "Loss"  # boxes are part of it, and no nats
    (bar,) = (c for c in right.collections if isinstance(c, LineCollection))
    (at,) = {float(x) for x, _ in bar.get_segments()[0]}
    assert at > 1.0 == float(ax.lines[0].get_xdata()[0])  # beside the loss, which it would cover
    assert ax.get_xlim() == (0.5, 1.5)
    assert bar.get_segments()[0][:, 1].tolist() == [0.1, 0.4]


def test_without_held_out_images(tmp_path: Path) -> None:
    nothing = {"nll": math.nan, "accuracy": math.nan, "low": math.nan, "high": math.nan}
    Metrics(tmp_path, [{**row, **nothing} for row in ROWS])
    ax = plots.plot_training(tmp_path, new_panel())
    assert len(ax.lines) == 1
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    assert figure.axes == [ax]


def test_no_training_there(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match="holds no training"):
        plots.plot_training(tmp_path)
    Metrics(tmp_path, [])
    with pytest.raises(BadResult, match="has not finished an epoch yet"):
        plots.plot_training(tmp_path)
    (tmp_path / "metrics.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadResult, match="is damaged"):
        plots.plot_training(tmp_path)
