import io
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot
from PIL import Image

from vitscope import plots
from vitscope.drawing.figures import PLOTS, new_panel, render, save_figures
from vitscope.drawing.style import styled
from vitscope.exams import EXAMS
from vitscope.findings.fourier import FourierResult
from vitscope.findings.variance import VarianceResult


def test_every_exam_has_a_figure_under_its_name() -> None:
    for exam in EXAMS:
        assert PLOTS[exam][0].name == exam
        assert getattr(plots, exam) is getattr(plots, f"plot_{exam}")
        assert all(plot.caption for plot in PLOTS[exam])


def test_saves_png_and_svg(fourier_result: FourierResult, tmp_path: Path) -> None:
    paths = save_figures(fourier_result, tmp_path)
    assert {p.name for p in paths} == {
        "fourier.png",
        "fourier.svg",
        "fourier_change.png",
        "fourier_change.svg",
        "fourier_radial.png",
        "fourier_radial.svg",
        "fourier_spectrum.png",
        "fourier_spectrum.svg",
    }
    for path in paths:
        if path.suffix == ".png":
            picture = Image.open(path).convert("L")
            assert picture.width > 600
            low, high = picture.getextrema()
            assert low < 80  # type: ignore[operator]
            assert high == 255
        else:
            assert path.read_bytes().startswith(b"<?xml")


def test_the_same_figure_has_the_same_bytes(variance_result: VarianceResult, tmp_path: Path) -> None:
    first = [p.read_bytes() for p in save_figures(variance_result, tmp_path / "a")]
    second = [p.read_bytes() for p in save_figures(variance_result, tmp_path / "b")]
    assert first == second


def test_no_figure_stays_open_and_no_setting_changes(variance_result: VarianceResult, tmp_path: Path) -> None:
    before, open_before = dict(matplotlib.rcParams), pyplot.get_fignums()
    save_figures(variance_result, tmp_path)
    assert pyplot.get_fignums() == open_before
    assert dict(matplotlib.rcParams) == before


def test_axes_are_made_where_none_are_given(variance_result: VarianceResult) -> None:
    ax = plots.variance(variance_result)
    assert pyplot.get_fignums()
    pyplot.close(ax.get_figure())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_render_gives_the_kind_asked_for(kind: str) -> None:
    with styled():
        content = render(new_panel(), kind)
    if kind == "png":
        assert Image.open(io.BytesIO(content)).format == "PNG"
    else:
        assert b"<svg" in content


def test_markers_of_the_first_unit_are_whole(variance_result: VarianceResult) -> None:
    """In files, on pages and in one's own axes."""
    ax = plots.variance(variance_result, new_panel())
    lines = [line for line in ax.lines if line.get_marker() == "o"]
    assert lines
    assert not any(line.get_clip_on() for line in lines)
