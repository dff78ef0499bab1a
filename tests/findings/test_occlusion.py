import numpy as np

from tests.findings.robustness_results import occlusion_result
from vitscope import plots
from vitscope.drawing.figures import new_panel


def test_a_line_per_order_from_the_whole_picture_on() -> None:
    ax = plots.occlusion(occlusion_result(), new_panel())
    lines = {line.get_label(): line for line in ax.lines if not str(line.get_label()).startswith("_")}
    np.testing.assert_allclose(lines["random"].get_ydata(), [90, 60])
    np.testing.assert_allclose(lines["salient"].get_xdata(), [0, 50])
    (diamond,) = [line for line in ax.lines if line.get_marker() == "D"]
    np.testing.assert_allclose([diamond.get_xdata()[0], diamond.get_ydata()[0]], [25, 70])


def test_several_models_with_diamonds_side_by_side() -> None:
    ax = plots.plot_occlusions([occlusion_result(), occlusion_result()], ax=new_panel())
    diamonds = [float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() == "D"]
    assert diamonds[0] < 25 < diamonds[1]
    missing = plots.plot_occlusions([occlusion_result()], order="non-salient", ax=new_panel())
    assert [line.get_marker() for line in missing.lines if line.get_marker() in "Dos^"] == ["D"]
