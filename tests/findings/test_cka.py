import numpy as np
import pytest

from vitscope import plots
from vitscope.core.statistics import Estimate
from vitscope.drawing.figures import new_panel
from vitscope.findings.cka import CkaResult
from vitscope.results import UnitRow

UNITS = tuple(UnitRow(f"u{i}", "conv", stage, i / 5, (2, 4, 4)) for i, stage in enumerate((0, 0, 1, 1, 2)))


def result(other: str | None = None, columns: tuple[UnitRow, ...] = UNITS, batches: int = 3) -> CkaResult:
    value = np.linspace(-0.2, 1.0, 5 * len(columns)).reshape(5, len(columns))
    none = np.full(2, np.nan)
    return CkaResult(
        model="m",
        data="d",
        n=30,
        seed=0,
        units=UNITS,
        other=other,
        other_units=columns,
        value=value if batches else np.full_like(value, np.nan),
        low=value - 0.1,
        high=value + 0.1,
        score=Estimate(none, none.copy(), none.copy()),
        batches=batches,
        left_out=0,
    )


def test_cells_are_the_similarities_on_a_fixed_scale() -> None:
    ax = plots.plot_cka(result(), new_panel())
    (image,) = ax.images
    shown = np.ma.getdata(image.get_array())
    np.testing.assert_allclose(shown, np.clip(result().value, 0.0, 1.0))
    assert image.get_clim() == (0.0, 1.0)
    assert image.origin == "lower"
    assert ax.get_aspect() == 1.0


def test_lines_stand_between_stages() -> None:
    ax = plots.plot_cka(result(), new_panel())
    vertical = {
        float(np.asarray(line.get_xdata())[0]) for line in ax.lines if len(set(line.get_xdata())) == 1
    }
    assert vertical == {0.4, 0.8}


def test_two_models_are_named_and_need_not_have_as_many_units() -> None:
    ax = plots.plot_cka(result("other", UNITS[:3]), new_panel())
    assert ax.get_xlabel().endswith("of other")
    assert ax.get_ylabel().endswith("of m")
    assert ax.images[0].get_extent() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("batches", [0, 3])
def test_says_when_there_is_nothing_to_show(batches: int) -> None:
    ax = plots.plot_cka(result(batches=batches), new_panel())
    assert any("no batch" in text.get_text() for text in ax.texts) == (batches == 0)
