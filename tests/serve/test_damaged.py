"""Runs that are damaged in every way: each has its own row, says its trouble, and takes nothing else down."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forged import forge, set_to
from tests.serve.conftest import HEADER, epoch
from tests.serve.server import Server
from vitscope.serve.index import Index
from vitscope.serve.pages import Pages

RECORD = {
    "schema": 1,
    "state": "done",
    "options": {"data": "fashion"},
    "model": {"name": "m"},
    "time": "2026",
}


def record(folder: Path, **changes: object) -> None:
    (folder / "run.json").write_text(json.dumps({**RECORD, **changes}))


def raw(content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / "run.json").write_bytes(content)  # type: ignore[return-value]


def metrics(content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        record(folder)
        (folder / "metrics.csv").write_bytes(content)

    return damage


def pipe(name: str, **changes: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        record(folder, **changes)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return damage


def listening(folder: Path) -> None:
    before = os.getcwd()
    os.chdir(folder)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("run.json")
    finally:
        os.chdir(before)


def prediction(content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        record(folder)
        (folder / "exams" / "prediction").mkdir(parents=True)
        (folder / "exams" / "prediction" / "prediction.csv").write_bytes(content)

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut": raw(b'{"schema": 1, '),
    "empty": raw(b""),
    "latin": raw(b'{"schema": 1, "state": "\xe4"}'),
    "utf16": raw('{"schema": 1}'.encode("utf-16")),
    "list": raw(b"[1, 2]"),
    "number": raw(b"5"),
    "deep": raw(b"[" * 200_000 + b"]" * 200_000),
    "deep-model": raw(b'{"schema": 1, "state": "done", "model": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "model-text": lambda folder: record(folder, model="vit"),
    "model-number": lambda folder: record(folder, model=5),
    "model-list": lambda folder: record(folder, model=[1]),
    "model-name-infinite": lambda folder: record(folder, model={"name": float("inf")}),
    "model-name-long": lambda folder: record(folder, model={"name": "x" * 1_000_000}),
    "surrogate": raw(b'{"schema": 1, "state": "done", "model": {"name": "\\ud800"}, "time": "\\udfff"}'),
    "options-list": lambda folder: record(folder, options=[1]),
    "data-dict": lambda folder: record(folder, options={"data": {"a": [1]}}),
    "state-list": lambda folder: record(folder, state=["done"]),
    "schema-text": lambda folder: record(folder, schema="1"),
    "schema-newer": lambda folder: record(folder, schema=99),
    "time-number": lambda folder: record(folder, time=5),
    "metrics-infinite": metrics((HEADER + epoch(1).replace("0.51", "inf")).encode()),
    "metrics-nan": metrics((HEADER + epoch(1).replace("0.4,", "nan,")).encode()),
    "metrics-latin": metrics(HEADER.encode() + b"\xe4\xff,1\n"),
    "metrics-null": metrics(HEADER.encode() + b"1\x00,2\n"),
    "metrics-wide": metrics(HEADER.encode() + b"1," * 10_000 + b"\n"),
    "metrics-field": metrics(HEADER.encode() + b'"' + b"x" * 300_000 + b'",1\n'),
    "prediction-infinite": prediction(b"quantity,value,low,high\naccuracy,inf,0,1\n"),
    "prediction-latin": prediction(b"quantity,value,low,high\naccuracy\xe4,1,0,1\n"),
    "prediction-field": prediction(b'quantity,value,low,high\n"' + b"x" * 300_000 + b'",1,0,1\n'),
    "pipe-run": pipe("run.json"),
    "pipe-metrics": pipe("metrics.csv"),
    "pipe-prediction": pipe("exams/prediction/prediction.csv"),
    "pipe-result": pipe("exams/prediction/result.json"),
    "pipe-lock": pipe(".lock", state="running"),
    "socket-run": listening,
}


@pytest.fixture
def damaged(runs: Path) -> Path:
    for name, damage in DAMAGES.items():
        folder = runs / "damaged" / name
        folder.mkdir(parents=True)
        damage(folder)
    return runs


def test_every_run_has_its_row(damaged: Path) -> None:
    found = {entry.path: entry for entry in Index(damaged).entries()}
    assert {f"damaged/{name}" for name in DAMAGES} | {"a/exam", "train", "broken"} == set(found)
    json.dumps([entry.plain() for entry in found.values()], allow_nan=False).encode()
    assert found["train"].trouble == found["a/exam"].trouble == ""
    assert "damaged" in found["broken"].trouble
    for name in ("cut", "deep", "model-text", "state-list", "schema-newer", "pipe-run", "socket-run"):
        assert found[f"damaged/{name}"].state == "damaged", name
        assert found[f"damaged/{name}"].trouble, name
    assert "run.json is a pipe, not a file" in found["damaged/pipe-run"].trouble
    assert "metrics.csv is a pipe, not a file" in found["damaged/pipe-metrics"].trouble
    assert found["damaged/pipe-metrics"].state == "done"
    assert found["damaged/metrics-infinite"].accuracy is None
    assert str(damaged) not in " ".join(entry.trouble for entry in found.values())


def test_one_damaged_exam_is_named_and_the_others_are_shown(runs: Path) -> None:
    cut, only = runs / "cut", runs / "only"
    shutil.copytree(runs / "a" / "exam", cut)
    shutil.copytree(cut / "exams" / "prediction", cut / "exams" / "fourier")
    (cut / "exams" / "fourier" / "result.json").write_text('{"schema": 1, ')
    shutil.copytree(cut / "exams" / "fourier", cut / "exams" / "lesion")
    (cut / "exams" / "lesion" / "lesion.csv").symlink_to(runs.parent / "outside" / "secret.csv")
    shutil.copytree(cut, only)
    shutil.rmtree(only / "exams" / "prediction")
    pages = Pages(Index(runs))
    page = pages.report(cut)
    assert 'id="prediction"' in page
    assert (
        "fourier: exams/fourier/result.json is damaged (it is no JSON from line 1 on); run the exam again"
        in page
    )
    assert "lesion: exams/lesion/lesion.csv is a link that leads out of what is served" in page
    assert str(runs) not in page
    with Server(runs) as server:
        answer = server.ask("/run/only")
        assert (answer.status, "exams/fourier/result.json is damaged" in answer.text) == (200, True)
        assert str(runs) not in answer.text
        broken = server.ask("/run/broken")
        assert (broken.status, "run.json is damaged" in broken.text) == (200, True)
        assert "</span><span>,\n" in broken.text  # no model, no data
        assert '<p id="none" hidden>' in broken.text  # no epoch is going to be finished
        assert server.end() == (130, "")


def test_a_name_that_is_not_text(runs: Path) -> None:
    folder = os.fsencode(runs) + b"/caf\xe9"
    os.mkdir(folder)
    record(Path(os.fsdecode(folder)))
    (found,) = [entry for entry in Index(runs).entries() if "caf" in entry.path]
    assert "name is not text" in found.trouble
    json.dumps(found.plain(), ensure_ascii=False).encode()


def test_a_server_shows_all_of_them(damaged: Path) -> None:
    with Server(damaged) as server:
        front = server.ask("/")
        assert front.status == 200
        assert "run.json is a pipe, not a file" in front.text
        listed = {run["path"]: run for run in json.loads(server.ask("/runs.json").body)["runs"]}
        assert len(listed) == len(DAMAGES) + 3
        for name in DAMAGES:
            for route in ("run", "training", "progress", "curve"):
                answer = server.ask(f"/{route}/damaged/{name}")
                assert answer.status in (200, 404, 500), (route, name)
                assert "Traceback" not in answer.text
                assert str(damaged) not in answer.text
        assert "run.json is a pipe" in server.ask("/training/damaged/pipe-run").text
        assert server.ask("/run/a/exam").status == 200
        assert server.end() == (130, "")


def test_an_exam_whose_contents_do_not_fit_together_is_set_aside(runs: Path) -> None:
    folder = runs / "forged"
    shutil.copytree(runs / "a" / "exam", folder)
    forge(folder, "prediction", set_to({"dtype": "int64", "shape": [0], "values": []}, "bin_count"))
    with Server(runs) as server:
        answer = server.ask("/run/forged")
        assert (answer.status, "exams/prediction/result.json is damaged: its contents" in answer.text) == (
            200,
            True,
        )
        assert str(runs) not in answer.text


def test_a_folder_with_a_line_break_in_its_name_is_shown(runs: Path) -> None:
    shutil.copytree(runs / "a" / "exam", runs / "two\nlines")
    with Server(runs) as server:
        assert 'href="/run/two%0Alines"' in server.ask("/").text
        for route in ("run", "training", "progress"):
            assert server.ask(f"/{route}/two%0Alines").status == 200, route
        assert server.ask("/files/two%0Alines/run.json").status == 200
        assert server.ask("/files/two%0Alines/../../secret").status == 404
