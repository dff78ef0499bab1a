import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.report.study_tables import a_study, compared
from vitscope.report.study_page import render_study, write_study_page
from vitscope.report.study_verdicts import STRIP_HEIGHT, STRIP_WIDTH, strip


@pytest.fixture(scope="module")
def page() -> str:
    comparisons = [
        compared("better", "holds"),
        compared("worse", "does not hold", rule="below 0"),
        compared("equal", "inconclusive", rule="within 0.05", note="one training each"),
        compared(
            "unknown", "inconclusive", value=float("nan"), low=float("nan"), high=float("nan"), p=float("nan")
        ),
    ]
    return render_study(a_study(missing=["new, seed 1: no <hessian>"], comparisons=comparisons))


def test_everything_of_a_verdict_is_there(page: str) -> None:
    part = re.findall(r'<article class="verdict">.*?</article>', page, flags=re.DOTALL)
    assert len(part) == 4
    for said in (
        "better is so",
        "holds",
        "+10.00 points [+4.00,\u00a0+16.00]",
        "2 trainings each on 500 images",
    ):
        assert said in part[0].replace("\u00a0points", " points")
    assert "p = 0.01, corrected p = 0.02" in part[0]
    assert "rule: above 0" in part[0]
    assert "does-not-hold" in part[1]
    assert "rule: within ±5 points" in part[2]
    assert "one training each" in part[2]
    assert "not measured" in part[3]


def test_arms_differences_and_cost_are_there(page: str) -> None:
    assert "vit_old" in page
    assert "12.00 k" in page
    assert "1.5 min" in page  # a training
    assert "3.0 min" in page  # both
    assert re.search(r'class="lower">-0.1 \[-0.2,\u00a0-0.05\]', page)
    assert "60.0\u00a0% [59.0,\u00a061.0]" in page  # accuracy of the new arm
    assert "change across MSAs" in page


def test_names_are_text_and_nothing_is_fetched(page: str) -> None:
    assert "Is it &lt;better&gt;?" in page
    assert "no &lt;hessian&gt;" in page
    assert "<better>" not in page
    assert set(re.findall(r"https?://([^/\"]+)", page)) <= {"www.w3.org"}


def test_figures_have_all_arms(page: str) -> None:
    titles = re.findall(r'<div class="panel"><h3>([^<]+)</h3>', page)
    assert titles == [
        "prediction: accuracy",
        "prediction: NLL",
        "Training loss",
        "Held-out loss",
        "Held-out accuracy",
        "variance",
    ]


def test_a_study_without_comparisons_trainings_or_depth_has_a_page() -> None:
    rows = [r for r in a_study().table().to_dict("records") if r["exam"] == "prediction"]
    page = render_study(a_study(("old",), numbers=rows, comparisons=[], by_seed=[], curves=[]))
    assert 'id="verdicts"' not in page
    assert 'id="differences"' not in page
    assert "Not finished" not in page


def test_a_page_of_nothing_says_what_is_missing() -> None:
    empty = {"numbers": [], "comparisons": [], "by_seed": [], "curves": [], "differences": []}
    page = render_study(a_study(missing=["old, seed 0: no prediction"], **empty))
    assert "old, seed 0: no prediction" in page


def test_it_is_written_into_the_folder_of_the_study(tmp_path: Path) -> None:
    saved = a_study().save(tmp_path)
    assert saved.page is None
    assert write_study_page(saved) == saved.page == tmp_path / "study.html"


def test_one_epoch_makes_no_curve_and_the_page_says_so(page: str) -> None:
    said = "measured after one epoch only"
    assert said not in page
    curves = a_study().tables["curves"]
    first = render_study(a_study(curves=curves[curves["epoch"] == 1].to_dict("records")))
    assert said in first
    for title in ("Training loss", "Held-out loss", "Held-out accuracy"):
        assert f"<h3>{title}</h3>" in page
        assert f"<h3>{title}</h3>" not in first


def test_why_an_interval_of_a_training_is_wider_than_that_of_an_exam_is_said(page: str) -> None:
    said = "recorded by the trainings themselves"
    assert said not in page  # there is none
    (difference,) = a_study().tables["differences"].to_dict("records")
    both = [difference, {**difference, "exam": "training", "quantity": "accuracy"}]
    assert said in render_study(a_study(differences=both))


def place(svg: str, tag: str, name: str) -> list[float]:
    root = ElementTree.fromstring(svg)
    return [float(one.attrib[name]) for one in root.iter(tag)]


def test_a_strip_is_to_scale() -> None:
    svg = str(strip((2.0, 1.0, 3.0), "above", 1.0, [1.5, 2.5], "#123456"))
    middle = STRIP_WIDTH / 2
    assert place(svg, "rect", "x") == [middle]
    bound, reach = zip(place(svg, "line", "x1"), place(svg, "line", "x2"), strict=True)
    assert bound == (middle, middle)
    assert reach[0] == middle  # the interval begins at the bound
    dots = place(svg, "circle", "cx")
    unit = reach[1] - middle  # two units long
    assert dots == pytest.approx([middle + 0.25 * unit, middle + 0.75 * unit, middle + 0.5 * unit], abs=0.1)


def test_a_strip_of_equivalence_has_two_bounds() -> None:
    svg = str(strip((0.1, -0.1, 0.3), "within", 0.5, [], "#123456"))
    (left,), (width,) = place(svg, "rect", "x"), place(svg, "rect", "width")
    assert sorted(place(svg, "line", "x1"))[0] == left
    assert left + width / 2 == pytest.approx(STRIP_WIDTH / 2)
    assert place(svg, "rect", "height") == [STRIP_HEIGHT]
    assert str(strip((float("nan"),) * 3, "above", 0.0, [], "#123456")) == ""
