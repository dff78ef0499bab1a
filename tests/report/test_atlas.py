import base64
import gzip
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.report.study_tables import a_study
from vitscope.report.atlas import columns_of, heading_of, render_atlas, write_atlas
from vitscope.report.depth_spark import EDGE, HEIGHT, WIDTH, Spark, spark
from vitscope.results.study_result import StudyResult


@pytest.fixture(scope="module")
def survey() -> StudyResult:
    arms = a_study(("one", "two", "broken")).tables["arms"].to_dict("records")
    arms[0] |= {"weights": "random", "built": "one_32", "caution": "it has <7> outputs"}
    arms[2] |= {"note": "it needs <64> pixels", "parameters": None, "flops": None}
    rows = [
        row for row in a_study(("one", "two", "broken")).table().to_dict("records") if row["arm"] != "broken"
    ]
    empty = {"comparisons": [], "by_seed": [], "curves": [], "differences": []}
    return a_study(("one", "two", "broken"), arms=arms, numbers=rows, **empty)


def test_the_wide_table_has_a_row_per_model(survey: StudyResult) -> None:
    wide = survey.wide().set_index("arm")
    assert list(wide.index) == ["one", "two", "broken"]
    row = wide.loc["two"]
    assert (row["prediction.accuracy"], row["prediction.accuracy_low"]) == pytest.approx((0.6, 0.59))
    assert row["variance.change[kind=msa]"] == pytest.approx(0.35)
    assert row["variance.variance"] == pytest.approx(2.1)  # the mean over three units
    assert wide.loc["broken"].drop(["model", "weights", "note"]).isna().all()
    assert columns_of(survey.wide())[:3] == ["parameters", "flops", "prediction.accuracy"]


def test_headings_are_words() -> None:
    assert heading_of("fourier.change[kind=msa]") == "fourier: change (msa)"
    assert heading_of("variance.variance") == "variance"
    assert heading_of("corruption.accuracy[condition=blur 3]") == "corruption: accuracy (blur 3)"


def test_the_table_can_be_sorted_and_failures_are_told(survey: StudyResult) -> None:
    page = render_atlas(survey)
    rows = re.findall(r'<tr><th scope="row" class="word">(.*?)</th>(.*?)</tr>', page)
    assert [name for name, _ in rows] == ["one (as one_32)", "two"]
    sorts = [float(value) for value in re.findall(r'data-sort="([^"]+)"', rows[1][1])]
    assert sorts[:3] == [12_000, 3_000_000, pytest.approx(0.6)]
    assert "it needs &lt;64&gt; pixels" in page
    assert "one (as one_32): these are" in page  # of random weights
    assert "<strong>one (as one_32).</strong> it has &lt;7&gt; outputs.</p>" in page
    assert "3 asked for, 2 examined, each as it comes" in page
    assert set(re.findall(r"https?://([^/\"]+)", page)) <= {"www.w3.org"}


def test_points_are_the_numbers_of_the_table(survey: StudyResult) -> None:
    page = render_atlas(survey)
    (payload,) = re.findall(r'data-widget="scatter".*?class="payload">([^<]+)<', page, flags=re.DOTALL)
    content = json.loads(gzip.decompress(base64.b64decode(payload)))
    assert content["models"] == ["one", "two", "broken"]
    assert content["up"] == "prediction: accuracy (%)"
    assert content["numbers"][content["up"]]["value"] == [50.0, 60.0, None]
    assert content["numbers"]["parameters"] == {
        "value": [12_000, 12_000, None],
        "low": [None] * 3,
        "high": [None] * 3,
        "log": True,
    }


def test_a_small_drawing_is_to_scale(survey: StudyResult) -> None:
    table = survey.table()
    rows = table[(table["arm"] == "one") & table["seed"].isna() & (table["quantity"] == "variance")]
    one = Spark.of(rows)
    np.testing.assert_allclose(one.value, [1.0, 2.0, 3.0])
    root = ElementTree.fromstring(str(spark(one, 1.0, 3.0)))
    line = [tuple(map(float, pair.split(","))) for pair in root.find("polyline").attrib["points"].split()]  # type: ignore[union-attr]
    assert [y for _, y in line] == [HEIGHT - EDGE, HEIGHT / 2, EDGE]
    assert line[0][0] == EDGE
    assert line[1][0] == pytest.approx(EDGE + 0.4 * (WIDTH - 2 * EDGE), abs=0.1)
    (shaded,) = root.findall("rect")
    assert (float(shaded.attrib["x"]), shaded.attrib["class"]) == (EDGE, "msa-step")


def test_a_survey_in_which_everything_failed_has_a_page(survey: StudyResult, tmp_path: Path) -> None:
    arms = [{**row, "note": "no network"} for row in survey.tables["arms"].to_dict("records")]
    empty = {"numbers": [], "comparisons": [], "by_seed": [], "curves": [], "differences": []}
    saved = a_study(("one", "two", "broken"), arms=arms, **empty).save(tmp_path)
    assert write_atlas(saved) == saved.page
    assert "no network" in saved.page.read_text()


def test_the_step_of_the_first_unit_is_shaded_where_it_has_no_number_before(survey: StudyResult) -> None:
    """As for changes across units, of which the stem has none."""
    table = survey.table()
    rows = table[(table["arm"] == "one") & table["seed"].isna() & (table["quantity"] == "variance")].copy()
    whole = ElementTree.fromstring(str(spark(Spark.of(rows), 1.0, 3.0)))
    rows.loc[rows["depth"] == rows["depth"].min(), ["value", "low", "high"]] = np.nan
    root = ElementTree.fromstring(str(spark(Spark.of(rows), 1.0, 3.0)))
    assert [one.attrib for one in root.findall("rect")] == [one.attrib for one in whole.findall("rect")]
    assert len(root.findall("circle")) == len(whole.findall("circle")) - 1
    assert "nan" not in ElementTree.tostring(root).decode()
