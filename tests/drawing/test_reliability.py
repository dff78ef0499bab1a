"""The shares of a reliability diagram can be read."""

import numpy as np
from matplotlib import pyplot as plt

from vitscope.core.statistics import Estimate
from vitscope.drawing.reliability import draw_reliability


def test_no_interval_crosses_a_share() -> None:
    """Every text of a share lies below the lowest end that an interval can have."""
    figure, ax = plt.subplots(figsize=(5, 4))
    count = np.arange(15)
    value = np.linspace(0, 1, 15)
    found = Estimate(value, np.zeros(15), np.ones(15))
    draw_reliability(ax, count, found, Estimate(0.1, 0.0, 0.2), 0.1, "boxes", "tab:blue")
    figure.canvas.draw()
    texts = [text for text in ax.texts if text.get_rotation() == 90]
    assert len(texts) == 14
    bottom, zero = (ax.transData.transform((0.0, y))[1] for y in (ax.get_ylim()[0], 0.0))
    for text in texts:
        box = text.get_window_extent()
        assert bottom <= box.y0 < box.y1 <= zero
    assert (ax.get_yticks() >= 0).all()
    plt.close(figure)
