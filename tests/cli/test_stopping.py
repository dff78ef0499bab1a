"""Verbs that are asked to end in the middle of their work: one line, and 130 after Ctrl-C, 143 after SIGTERM."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from tests.exams.factories import small_transformer
from tests.pictures import few_pictures
from tests.stopping import SignalInside
from vitscope.cli.app import main

CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
ASKS = f"{__name__}:asks"
SMALL = ["--limit", "16", "--batch-size", "4"]
ONE_EPOCH = ["--epochs", "1", "--batch-size", "10", "--workers", "0"]
number: int = signal.SIGINT
at = 2
training = False


def asks() -> nn.Module:
    """A model that sends a signal to its own process while it works."""
    model = small_transformer()
    SignalInside(model, at, number, least=3, training=training)
    return model


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """A process that a shell starts in the background ignores Ctrl-C; not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("sent", "code"), CODES)
@pytest.mark.parametrize(
    ("words", "passes", "in_training"),
    [
        (["diagnose", ASKS, "--exams", "prediction", *SMALL], 2, False),
        (["diagnose", ASKS, "--exams", "occlusion", *SMALL], 3, False),
        (["diagnose", ASKS, "--exams", "landscape", "--landscape.points", "3", *SMALL], 6, False),
        (
            ["diagnose", ASKS, "--exams", "hessian", "--hessian.batches", "2", "--hessian.k", "1", *SMALL],
            1,
            False,
        ),
        (["evaluate", ASKS, *SMALL], 2, False),
        (["train", ASKS, *ONE_EPOCH], 1, True),
        (["train", ASKS, *ONE_EPOCH], 1, False),
    ],
)
def test_one_rule_for_codes(
    words: list[str],
    passes: int,
    in_training: bool,
    sent: int,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here: Any = globals()
    for name, value in {"number": sent, "at": passes, "training": in_training}.items():
        monkeypatch.setitem(here, name, value)
    before = [signal.getsignal(kind) for kind, _ in CODES]
    data = few_pictures(tmp_path / "pictures", train=2, test=1) if words[0] == "train" else "fashion"
    assert main([*words, "--data", data, "--out", str(tmp_path / "run")]) == code
    said = capsys.readouterr().err
    assert "vitscope: interrupted" in said
    assert "Traceback" not in said
    assert [signal.getsignal(kind) for kind, _ in CODES] == before


@pytest.mark.parametrize(("sent", "code"), CODES)
def test_while_a_page_is_made(
    sent: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(globals(), "at", -1)
    run = tmp_path / "run"
    assert (
        main(["diagnose", ASKS, "--exams", "prediction", "--data", "fashion", *SMALL, "--out", str(run)]) == 0
    )
    monkeypatch.setattr("vitscope.report.page.inline_svg", lambda *_: signal.raise_signal(sent))
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == code
    assert "vitscope: interrupted" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
