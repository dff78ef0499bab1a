import numpy as np

from tests.findings.robustness_results import adversarial_result
from vitscope import plots
from vitscope.drawing.figures import new_panel


def test_a_line_per_attack_from_no_attack_on() -> None:
    ax = plots.adversarial(adversarial_result(), new_panel())
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["FGSM"].get_xdata(), [0, 4, 8])
    np.testing.assert_allclose(lines["FGSM"].get_ydata(), [90, 60, 40])
    np.testing.assert_allclose(lines["PGD, 5 steps"].get_ydata(), [90, 20])


def test_models_without_gradient() -> None:
    alone = plots.adversarial(adversarial_result(attacked=False), new_panel())
    assert "no gradient" in alone.texts[0].get_text()
    ax = plots.plot_adversarials([adversarial_result(False), adversarial_result()], new_panel())
    assert [line.get_label() for line in ax.lines] == ["m, FGSM", "m, PGD"]
    nobody = plots.plot_adversarials([adversarial_result(False)], new_panel())
    assert "no gradient" in nobody.texts[0].get_text()
