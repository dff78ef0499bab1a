import numpy as np
import pytest

from vitscope import plots
from vitscope.core.statistics import Estimate
from vitscope.drawing.figures import new_panel
from vitscope.findings.lesion import Group, KeptUnit, LesionResult
from vitscope.results import UnitRow


@pytest.fixture
def result() -> LesionResult:
    units = (UnitRow("a", "msa", 0, 0.25), UnitRow("b", "mlp", 0, 0.5), UnitRow("d", "mlp", 1, 0.9))
    value = np.array([0.02, 0.3, -0.01])
    kept = (
        KeptUnit(UnitRow("stem", "stem", 0, 0.0), "everything passes through it"),
        KeptUnit(UnitRow("c", "conv", 1, 0.75, downsamples=True), "its shortcut does work of its own"),
        KeptUnit(UnitRow("head", "head", 1, 1.0), "everything passes through it"),
    )
    groups = (
        Group("msa", "", 1, Estimate(0.02, 0.0, 0.04)),
        Group("msa", "only", 1, Estimate(0.02, 0.0, 0.04)),
        Group("mlp", "", 2, Estimate(0.145, 0.1, 0.2)),
        Group("mlp", "only", 2, Estimate(0.145, 0.1, 0.2)),
    )
    return LesionResult(
        model="m",
        data="d",
        n=100,
        seed=0,
        units=units,
        position=("only",) * 3,
        accuracy=Estimate(0.9, 0.84, 0.96),
        value=value,
        low=value - 0.02,
        high=value + 0.03,
        lost=np.array([3, 30, 0]),
        gained=np.array([1, 0, 1]),
        groups=groups,
        contrasts=(),
        kept=kept,
    )


def test_a_bar_for_each_unit_that_was_removed_and_a_cross_for_the_others(result: LesionResult) -> None:
    ax = plots.lesion(result, new_panel(), colour="#123456")
    bars = sorted(
        ((b.get_x() + b.get_width() / 2, b.get_height()) for b in ax.patches), key=lambda bar: bar[0]
    )
    np.testing.assert_allclose([height for _, height in bars], [2.0, 30.0, -1.0])
    np.testing.assert_allclose([place for place, _ in bars], [0.125, 0.375, 0.825])  # the middle of its step
    (crosses,) = [line for line in ax.lines if line.get_marker() == "x"]
    np.testing.assert_allclose(crosses.get_xdata(), [0.625])  # neither stem nor head


def test_groups(result: LesionResult) -> None:
    ax = plots.plot_lesion_groups(result, new_panel())
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["only one"]
    np.testing.assert_allclose(sorted(bar.get_height() for bar in ax.patches), [2.0, 14.5])
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["MSA", "MLP"]
