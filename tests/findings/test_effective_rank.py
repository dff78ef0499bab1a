import numpy as np

from tests.cases import AT_32
from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.exams.features.effective_rank import effective_rank
from vitscope.findings.effective_rank import EffectiveRankResult


def result() -> EffectiveRankResult:
    case = next(case for case in AT_32 if "vit" in case.name)
    return effective_rank(case.model(), case.images(3))


def test_shows_the_values_and_the_bound() -> None:
    found = result()
    rank, cosine = (draw(found, new_panel()) for draw in (plots.plot_effective_rank, plots.plot_token_cosine))
    np.testing.assert_array_equal(rank.lines[0].get_ydata(), found.value[:, 0])
    np.testing.assert_array_equal(rank.lines[-1].get_ydata(), found.bound)
    np.testing.assert_array_equal(cosine.lines[0].get_ydata(), found.value[:, 1])
    assert cosine.get_ylim()[1] == 1.0


def test_bars_are_the_changes() -> None:
    found = result()
    ax = plots.plot_token_cosine_change(found, new_panel())
    heights = sorted(bar.get_height() for bar in ax.patches)
    np.testing.assert_allclose(heights, sorted(found.change.value[np.isfinite(found.change.value[:, 1]), 1]))
