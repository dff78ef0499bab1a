"""metrics.csv is complete after every row, the bar counts what was done before, trackers get the same rows."""

import importlib.util
import math
import struct
from pathlib import Path

import pandas as pd
import pytest

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.tasks import Classification
from vitscope.training.log import COLUMNS, Bar, Metrics, Tracking

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
    with Bar(epochs=2, images_per_epoch=100, done=100, shown=True, words=Classification().words) as bar:
        bar.step(1, 100, 1.25, 0.07)
        bar.row({**ROW, "epoch": 2, "accuracy": 0.5, "low": 0.4, "high": 0.6, "waiting": 0.12})
    shown = capsys.readouterr().err
    assert "epoch 2/2" in shown
    assert "200/200" in shown
    assert "loss=1.250" in shown
    assert "waiting=7%" in shown
    assert "held-out accuracy 50.00%" in shown
    assert "12% of the time waiting for images" in shown


def test_a_score_without_a_likelihood(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar(epochs=1, images_per_epoch=1, done=0, shown=True, words=lambda row: "box AP 3.0% (so)") as bar:
        bar.row({**ROW, "nll": math.nan})
    said = capsys.readouterr().err
    assert "held-out box AP 3.0%" in said
    assert "nan" not in said


def test_hidden_bar_and_no_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (False, True):
        with Bar(epochs=1, images_per_epoch=1, done=0, shown=shown) as bar:
            bar.row({**ROW, "accuracy": math.nan})
        text = capsys.readouterr().err
        assert "accuracy" not in text
        assert bool(text) == shown


TRACKED = {"epoch": 1, "lr": 0.1, "train_loss": 2.0, "accuracy": math.nan}


def test_without_a_tracker_nothing_happens(tmp_path: Path) -> None:
    with Tracking(None, tmp_path, {}, 0) as tracking:
        tracking.row(TRACKED)
    assert not list(tmp_path.iterdir())


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """The values of all event files below a folder, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]
    }


def test_tensorboard_shows_a_training_that_was_resumed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install tensorboard")
    data = vs.load_data("fashion", split="train").subset(range(16))
    for epochs in (1, 2):
        vs.train(
            "vit_mini",
            data,
            "mini",
            tmp_path,
            held_out=data,
            epochs=epochs,
            changes={"warmup_epochs": 0.0},
            resume=True,
            force=True,
            track="tensorboard",
            progress=False,
        )
    import pandas as pd

    table = pd.read_csv(tmp_path / "metrics.csv").set_index("epoch")
    found = scalars(tmp_path / "tensorboard")
    for column in ("train_loss", "accuracy", "nll", "lr"):
        assert list(found[column]) == [1, 2]
        for epoch, value in found[column].items():
            assert value == struct.unpack("f", struct.pack("f", table[column][epoch]))[0]  # kept as float32


def test_what_was_not_measured_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install tensorboard")
    with Tracking("tensorboard", tmp_path, {}, 0) as tracking:
        tracking.row(TRACKED)
    assert set(scalars(tmp_path / "tensorboard")) == {"lr", "train_loss"}


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_that_is_not_installed(tmp_path: Path, name: str) -> None:
    if importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed here")
    with pytest.raises(
        VitscopeError, match=f"--track {name} needs the package {name} .*: pip install {name}"
    ):
        Tracking(name, tmp_path, {}, 0)  # type: ignore[arg-type]


def test_no_such_tracker(tmp_path: Path) -> None:
    with pytest.raises(VitscopeError, match="no tracker 'paper'; there are: tensorboard, wandb, trackio"):
        Tracking("paper", tmp_path, {}, 0)  # type: ignore[arg-type]
