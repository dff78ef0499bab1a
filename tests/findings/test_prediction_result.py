from pathlib import Path

import numpy as np
import torch

from vitscope.engine.exam import Batch, Subject
from vitscope.exams.prediction.prediction import QUANTITIES, PredictionAccumulator, PredictionResult
from vitscope.results import Result


def made(temperature: float | None = None, fit: bool = False) -> PredictionResult:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(100, 4, generator=generator)
    likely = logits[:, :3].softmax(1)  # the last class has no images
    labels = torch.multinomial(likely, 1, generator=generator)[:, 0]
    accumulator = PredictionAccumulator.with_options(temperature="fit" if fit else temperature)(
        Subject("m", "d")
    )
    accumulator.update(Batch(logits, labels, torch.arange(100)))
    return accumulator.finish()


def test_table_and_disk(tmp_path: Path) -> None:
    result = made()
    few = len(result.class_names) <= 5  # whatever the label, it is among five
    assert result.table()["quantity"].tolist() == [q for q in QUANTITIES if q != "top5" or not few]
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, PredictionResult)
    np.testing.assert_array_equal(back.value, result.value)
    np.testing.assert_array_equal(back.outcomes()[1], result.outcomes()[1])
    csv = {"prediction.csv", "reliability.csv", "confidence.csv", "classes.csv"}
    assert {p.name for p in tmp_path.iterdir()} == csv | {"result.json"}


def test_scaling_survives_the_disk(tmp_path: Path) -> None:
    result = made(fit=True)
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, PredictionResult)
    assert back.scaling is not None
    assert result.scaling is not None
    np.testing.assert_array_equal(back.scaling.drawn, result.scaling.drawn)
    assert back.scaling.temperature == result.scaling.temperature


def test_class_table_has_no_rows_without_images() -> None:
    table = made().class_table()
    assert set(zip(table["class"], table["quantity"], strict=True)) == {
        *((k, q) for k in range(3) for q in ("accuracy", "precision", "confidence")),
        (3, "precision"),
    }
    assert table[table["quantity"] == "accuracy"]["n"].sum() == 100
    assert table[table["quantity"] == "precision"]["n"].sum() == 100
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()


def test_bins_and_histogram_count_every_image() -> None:
    tables = made().tables()
    assert tables["reliability"]["count"].sum() == 100
    assert tables["confidence"][["right", "wrong"]].to_numpy().sum() == 100
    filled = tables["reliability"][tables["reliability"]["count"] > 0]
    assert (filled["accuracy_low"] <= filled["accuracy"]).all()
    assert (filled["accuracy"] <= filled["accuracy_high"]).all()
