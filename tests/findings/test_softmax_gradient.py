from dataclasses import replace

import numpy as np

from tests.findings.head_results import emptied, gradient_result
from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.report.sections import reading


def test_share_of_the_maximum() -> None:
    result = gradient_result()
    ax = plots.plot_softmax_gradient(result, new_panel())
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), result.of("share")[0][result.layers])
    assert ax.get_ylim() == (0.0, 1.05)


def test_a_model_without_attention_says_so() -> None:
    assert plots.plot_softmax_gradient(emptied(gradient_result()), new_panel()).texts


def test_shares_that_round_to_the_same_are_said_once() -> None:
    result = gradient_result()
    alike = replace(result, value=np.full_like(result.value, 0.998))
    assert reading(alike) == "Attention passes on 100 % in every layer of the largest gradient that it could."
    assert " to " in reading(result)
