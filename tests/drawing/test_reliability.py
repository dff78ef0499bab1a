"""The shares of a reliability diagram can be read."""

import numpy as np
from matplotlib import pyplot as plt

from vitscope.core.statistics import Estimate
from vitscope.drawing.reliability import draw_reliability
from vitscope.results.calibrated import Calibrated


class _Boxes(Calibrated):
    quantities = ("ece", "signed_ece")


def test_no_interval_crosses_a_share() -> None:
    """Every text of a share lies below the lowest end that an interval can have."""
    figure, ax = plt.subplots(figsize=(5, 4))
    count = np.arange(15)
    value = np.linspace(0, 1, 15)
    found = _Boxes(
        value=np.full(2, 0.1),
        low=np.zeros(2),
        high=np.full(2, 0.2),
        drawn=np.zeros((0, 2)),
        bin_count=count,
        bin_confidence=value,
        bin_accuracy=Estimate(value, np.zeros(15), np.ones(15)),
    )
    draw_reliability(ax, found, "boxes", "tab:blue")
    figure.canvas.draw()
    texts = [text for text in ax.texts if text.get_rotation() == 90]
    assert len(texts) == 14
    bottom, zero = (ax.transData.transform((0.0, y))[1] for y in (ax.get_ylim()[0], 0.0))
    for text in texts:
        box = text.get_window_extent()
        assert bottom <= box.y0 < box.y1 <= zero
    assert (ax.get_yticks() >= 0).all()
    plt.close(figure)
