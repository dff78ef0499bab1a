import base64
import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd

import vitscope as vs
from tests.exams.every_exam import SmallSegmenter, masked
from vitscope.report.sections import classes_grid, counts_grid, downloads, grid, whole_grid, whole_rows
from vitscope.results import Run


def test_whole_models_stand_side_by_side(runs: Path) -> None:
    results = [(name, Run.open(runs / name).results()["prediction"]) for name in ("resnet", "vit")]
    found = whole_grid(results)
    assert found is not None
    assert found.columns == ["quantity", "resnet", "vit"]
    assert [row[0] for row in found.cells][:3] == ["accuracy", "top-5", "NLL"]
    value = results[1][1].table()["value"].iloc[0]
    assert found.cells[0][2].startswith(f"{100 * value:.1f} % [")


def test_rows_of_the_same_name_are_told_apart_by_the_columns_of_their_exam(runs: Path) -> None:
    base = Run.open(runs / "vit").results()["prediction"]

    class Several(type(base), exam="several"):  # type: ignore[misc]
        def summary(self) -> pd.DataFrame:
            rows = self.table().head(3).assign(quantity="accuracy")
            return rows.assign(passes=[0, 5, 5], smoothed=[False, False, True])

    found = object.__new__(Several)
    found.__dict__.update(base.__dict__)
    names = [name for name, _ in whole_rows(found)]
    assert names == ["accuracy (passes 0)", "accuracy (passes 5)", "accuracy (passes 5, smoothed)"]


def test_counts_of_units_whose_interval_leaves_out_0(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["fourier"]
    change = result.table().query("quantity == 'change' and unit.notna() and kind == 'msa'")
    found = counts_grid([("vit", result)])
    assert found is not None
    row = next(row for row in found.cells if row[1] == "msa")
    assert row[2:4] == [str(len(change)), str(int((change["high"] < 0).sum()))]


def test_words_come_first_and_empty_columns_go() -> None:
    table = pd.DataFrame({"value": [1.23456], "unit": ["a"], "nothing": [np.nan]})
    found = grid(table)
    assert (found.columns, found.cells, found.words) == (["unit", "value"], [["a", "1.235"]], 1)
    assert not found.is_long
    assert grid(pd.concat([table] * 13)).is_long


def test_every_table_can_be_saved_without_loss(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["prediction"]
    found = {one.name: one for one in downloads("../a b", result)}
    assert set(found) == set(result.tables())
    for name, table in result.tables().items():
        assert found[name].rows == len(table)
        text = gzip.decompress(base64.b64decode(found[name].csv)).decode()
        assert text == (runs / "vit" / "exams" / "prediction" / f"{name}.csv").read_text()
        pd.testing.assert_frame_equal(
            pd.read_csv(io.StringIO(text)), pd.read_csv(io.StringIO(table.to_csv(index=False)))
        )
    assert found["classes"].file == ".._a_b-classes.csv"


def test_a_table_without_rows_is_left_out(runs: Path) -> None:
    assert downloads("resnet", Run.open(runs / "resnet").results()["attention"]) == []


def test_classes_are_a_table_with_intervals(runs: Path) -> None:
    result = vs.exams.segmentation(SmallSegmenter().eval(), masked(6), batch_size=6)
    one = classes_grid([("a", result)])
    assert one is not None
    assert one.columns == ["class", "IoU", "precision", "recall", "share"]
    assert [row[0] for row in one.cells] == ["sand", "coral", "weed"]
    first = result.class_table().iloc[0]
    ends = f"[{100 * first['iou_low']:.1f}, {100 * first['iou_high']:.1f}]"
    assert one.cells[0][1] == f"{100 * first['iou']:.1f} % {ends}"
    both = classes_grid([("a", result), ("b", result)])
    assert both is not None
    assert both.columns[:2] == ["model", "class"]
    assert [row[0] for row in both.cells] == ["a"] * 3 + ["b"] * 3
    assert classes_grid([("c", Run.open(runs / "vit").results()["prediction"])]) is None
