"""metrics.csv is complete after every row; the bar counts what was done before."""

import math
from pathlib import Path

import pandas as pd
import pytest

from vitscope.training.log import COLUMNS, Bar, Metrics

ROW = {name: float(i) for i, name in enumerate(COLUMNS)} | {"epoch": 1}


def test_rows_are_readable_at_once(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, [])
    assert pd.read_csv(tmp_path / "metrics.csv").empty
    for epoch in (1, 2):
        metrics.add({**ROW, "epoch": epoch})
        table = pd.read_csv(tmp_path / "metrics.csv")
        assert list(table.columns) == list(COLUMNS)
        assert list(table["epoch"]) == list(range(1, epoch + 1))


def test_resuming_drops_what_was_not_finished(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, [])
    metrics.add(ROW)
    metrics.add({**ROW, "epoch": 2})
    Metrics(tmp_path, [ROW])
    assert list(pd.read_csv(tmp_path / "metrics.csv")["epoch"]) == [1]


def test_bar_shows_epochs_images_and_loss(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar(epochs=2, images_per_epoch=100, done=100, shown=True) as bar:
        bar.step(1, 100, 1.25, 0.07)
        bar.row({**ROW, "epoch": 2, "accuracy": 0.5, "waiting": 0.12})
    shown = capsys.readouterr().err
    assert "epoch 2/2" in shown
    assert "200/200" in shown
    assert "loss=1.250" in shown
    assert "waiting=7%" in shown
    assert "held-out accuracy 50.00%" in shown
    assert "12% of the time waiting for images" in shown


def test_hidden_bar_and_no_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (False, True):
        with Bar(epochs=1, images_per_epoch=1, done=0, shown=shown) as bar:
            bar.row({**ROW, "accuracy": math.nan})
        text = capsys.readouterr().err
        assert "accuracy" not in text
        assert bool(text) == shown
