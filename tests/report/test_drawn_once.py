from collections import Counter
from dataclasses import replace

import pytest

from vitscope.data import load_data
from vitscope.drawing.figures import PLOTS
from vitscope.exams import diagnose
from vitscope.models import create_model
from vitscope.report import report

EXAMS = ["fourier", "variance"]


@pytest.fixture
def drawn(monkeypatch) -> Counter[str]:
    """How often each figure was drawn."""
    times: Counter[str] = Counter()

    def counting(plot):
        def draw(*args, **options):
            times[plot.name] += 1
            return plot.draw(*args, **options)

        return replace(plot, draw=draw)

    for exam in EXAMS:
        monkeypatch.setitem(PLOTS, exam, [counting(plot) for plot in PLOTS[exam]])
    return times


def test_a_figure_is_drawn_once_where_it_is_asked_for(tmp_path, drawn):
    figures = {plot.name for exam in EXAMS for plot in PLOTS[exam]}
    model, data = create_model("vit_mini", pretrained=True), load_data("fashion", split="test")
    diagnose(model, data, EXAMS, limit=8)
    assert not drawn  # nobody wants them without a folder
    diagnose(model, data, EXAMS, limit=8, out=tmp_path / "run")
    assert drawn == Counter(figures)
    diagnose(model, data, EXAMS, limit=8, out=tmp_path / "run")
    assert drawn == Counter(figures)
    report(tmp_path / "run", tmp_path / "page.html")
    assert drawn == Counter([*figures, *figures])
