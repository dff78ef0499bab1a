from pathlib import Path

import numpy as np
import pytest

from tests.exams.landscape_cases import images, linear
from vitscope.exams.loss.landscape import landscape
from vitscope.findings.landscape import LandscapeResult
from vitscope.results import Result


@pytest.fixture(scope="module")
def result() -> LandscapeResult:
    return landscape(linear(), images(), points=4, recipe=None, weight_decay=0.2, l2="norm")


def test_every_grid_value_has_its_place_its_interval_and_its_n(result: LandscapeResult) -> None:
    table = result.table()
    for quantity in ("nll", "loss", "accuracy", "rise", "l2"):
        rows = table[table["quantity"] == quantity]
        assert len(rows) == 16
        assert set(rows["n"]) == {12}
        row = rows[(rows["x"] == result.x[3]) & (rows["y"] == result.y[1])].iloc[0]
        assert row["value"] == result.of(quantity)[0][1, 3]
        assert row["low"] <= row["value"] <= row["high"] or quantity == "l2"
    rows = table.set_index("quantity")
    assert rows.loc["l2", "low"].isna().all()
    np.testing.assert_allclose(
        rows.loc["loss", "value"], rows.loc["nll", "value"].to_numpy() + rows.loc["l2", "value"].to_numpy()
    )


def test_the_summary_is_the_centre_and_the_edge(result: LandscapeResult) -> None:
    rows = result.summary().set_index("quantity")
    edge = [result.rise.value[i, j] for i in range(4) for j in range(4) if i in (0, 3) or j in (0, 3)]
    assert len(edge) == 12
    assert rows.loc["edge rise", "value"] == pytest.approx(np.mean(edge))
    assert rows.loc["centre loss", "value"] == pytest.approx(result.centre.nll.value + result.centre.l2)
    width = rows.loc["centre loss", "high"] - rows.loc["centre loss", "low"]
    assert width == pytest.approx(result.centre.nll.high - result.centre.nll.low)
    assert rows.loc["points not finite", "value"] == 0


def test_saved_and_loaded(result: LandscapeResult, tmp_path: Path) -> None:
    result.save(tmp_path)
    loaded = Result.load(tmp_path)
    assert isinstance(loaded, LandscapeResult)
    assert loaded.table().equals(result.table())
    assert loaded.moved == result.moved
    assert (tmp_path / "landscape_marks.csv").exists()
