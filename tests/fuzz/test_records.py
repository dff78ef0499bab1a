"""Damaged records of studies and their store: cut short, of other types, nested: refused in words, or not there."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.refusals import check_message
from vitscope.core.errors import VitscopeError
from vitscope.models.checkpoints import INDEX, list_checkpoints
from vitscope.results.claim_record import ClaimRecord
from vitscope.results.study_result import TABLES, StudyResult, as_table
from vitscope.studies import Job, execute, outcome_of
from vitscope.studies.build_up_search import BuildUp, Step
from vitscope.studies.store import Store

ADD = "tests.studies.functions:add"
KEY = "0123456789abcdef"
TEXTS = [b"", b"\xff\xfe", b"{}", b"[]", b"null", b"7", b'"words"', b'{"schema": 1']
TEXTS += [b"[" * 100_000, b'{"a":' * 100_000]
VALUES: list[Any] = [None, True, 7, "words", [], {"a": 7}, [[7]], 1e999]
Read = Callable[[], Any]


def job_file(folder: Path) -> tuple[Path, Read]:
    path = Job(ADD, {"a": 1, "b": 2}, folder / "x").write()
    return path, lambda: Job.read(path)


def outcome_file(folder: Path) -> tuple[Path, Read]:
    job = Job(ADD, {"a": 1, "b": 2}, folder / "x")
    execute(job)
    return job.folder / "result.json", lambda: outcome_of(job)


def seconds_file(folder: Path) -> tuple[Path, Read]:
    store = Store(folder)
    execute(Job(ADD, {"a": 1, "b": 2}, store.job_folder("train", KEY)))
    return store.job_folder("train", KEY) / "job" / "result.json", lambda: store.seconds("train", KEY)


def training_file(folder: Path) -> tuple[Path, Read]:
    store = Store(folder)
    store.job_folder("train", KEY).mkdir(parents=True)
    (store.job_folder("train", KEY) / "metrics.csv").write_text("epoch,accuracy,nll\n1,0.5,\n2,0.6,1.5\n")
    store.keep_training(KEY, {"parameters": 10, "images": 7, "device": "cpu"})
    return folder / "trainings" / f"{KEY}.json", lambda: store.training(KEY)


def study_file(folder: Path) -> tuple[Path, Read]:
    rows = {name: [{column: 1 for column in columns}] for name, columns in TABLES.items()}
    tables = {name: as_table(name, found) for name, found in rows.items()}
    asked = {"arms": [{"name": "plain", "data": "fashion", "seeds": [0]}]}
    asked["looks"] = [{"label": "fourier", "exam": "fourier", "data": None}]
    StudyResult("small", "Does it do anything?", asked, tables, ("an exam",)).save(folder)
    return folder / "study.json", lambda: StudyResult.load(folder)


def card_file(folder: Path) -> tuple[Path, Read]:
    ClaimRecord(*("D1 title statement definition published digest smoke about limits command".split())).save(
        folder
    )
    return folder / "card.json", lambda: ClaimRecord.load(folder)


def build_up_file(folder: Path) -> tuple[Path, Read]:
    step = Step(0, None, None, (0, 0), 0.5, 0.4, 0.6, 0.0, 0.0, 0.0, True, 10, 100, 1.0)
    BuildUp((step,), 3, 0.0, False, True).save(folder)
    return folder / "build_up.json", lambda: BuildUp.load(folder).table()


def checkpoints_file(folder: Path) -> tuple[Path, Read]:
    entry = {"name": "last", "file": "model.safetensors", "epoch": 1.0, "accuracy": 0.5, "nll": None}
    path = folder / INDEX
    path.write_text(json.dumps({"schema": 1, "checkpoints": [entry]}))
    return path, lambda: list_checkpoints(folder)


FILES: dict[Callable[[Path], tuple[Path, Read]], set[str]] = {  # with the parts that may be anything
    job_file: {"arguments"},
    outcome_file: {"job", "result"},
    training_file: {"rows"},
    study_file: {"provenance", "study", "tables"},
    card_file: set(),
    build_up_file: set(),
    checkpoints_file: set(),
}


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_damaged_files_are_refused_in_words(
    make: Callable[[Path], tuple[Path, Read]], tmp_path: Path
) -> None:
    path, read = make(tmp_path)
    whole = path.read_bytes()
    assert read() is not None
    for what, text, place, value in damaged(whole):
        path.write_bytes(text)
        refused = refusal(read)
        if refused is not None:
            check_message(refused, what)
            assert str(tmp_path) in refused, what
            assert "; " in refused, what  # what to do about it
        elif not (place and place[0] in FILES[make]):
            assert place, what
            assert is_like(json.loads(whole), place, value), what


def refusal(read: Read) -> str | None:
    try:
        read()
    except VitscopeError as error:
        return str(error)
    return None


@pytest.mark.parametrize("rows", [[], [7], ["words"], [{"epoch": "words"}], {"epoch": 1}, [{"epoch": [1]}]])
def test_rows_of_a_training_are_numbers_by_name(rows: Any, tmp_path: Path) -> None:
    path, read = training_file(tmp_path)
    path.write_text(json.dumps({"schema": 1, "rows": rows}))
    assert "; remove it, and it is made again" in (refusal(read) or "")


def is_like(content: Any, place: tuple[Any, ...], value: Any) -> bool:
    """Whether a value may stand in the place of this one: of the same kind, or missing where that may be."""
    for key in place:
        content = content[key]
    if value is MISSING or value is None:
        return place[-1] in OPTIONAL or (value is MISSING and isinstance(place[-1], int))
    if content is None:
        return place[-1] in OPTIONAL and isinstance(value, str | int) and not isinstance(value, bool)
    if isinstance(content, bool | str | list):
        return type(value) is type(content) and value in (True, "words", [])
    return (type(value) is int and isinstance(content, int | float)) or (
        value == 1e999 and type(content) is float
    )


OPTIONAL = {"parameters", "images", "device", "accuracy", "nll", "stage", "unit"}
MISSING = object()


def test_a_damaged_time_is_none(tmp_path: Path) -> None:
    path, read = seconds_file(tmp_path)
    whole = path.read_bytes()
    assert read() >= 0
    for text in (*TEXTS, whole[:-9], changed(json.loads(whole), ("seconds",), -1.0)):
        path.write_bytes(text)
        assert read() is None


def damaged(whole: bytes) -> Iterator[tuple[str, bytes, tuple[Any, ...], Any]]:
    """What it is, the text, and which value stands where."""
    for text in TEXTS:
        yield repr(text[:20]), text, (), None
    for part in (3, 2, 1):
        yield f"{part}/4 of it", whole[: len(whole) * part // 4], (), None
    content = json.loads(whole)
    for place in places(content, 1 if "tables" in content else 2):  # pandas takes its time
        for value in (MISSING, *VALUES):
            yield f"{place} = {value!r}", changed(content, place, value), place, value


def places(content: Any, depth: int) -> Iterator[tuple[Any, ...]]:
    """Ways to the values of a record; of a list only the first."""
    items: Any = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content[:1])
        if isinstance(content, list)
        else ()
    )
    for key, value in items:
        yield (key,)
        if depth > 1:
            yield from ((key, *rest) for rest in places(value, depth - 1))


def changed(content: Any, place: tuple[Any, ...], value: Any) -> bytes:
    content = copy.deepcopy(content)
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return json.dumps(content).encode()
