"""Interrupted passes, by real signals to real processes, go on where they stopped and give the same digits."""

import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.factories import small_transformer
from tests.processes import Job
from vitscope.data import ImageData
from vitscope.engine.exam import Batch
from vitscope.engine.partial_pass import Partial
from vitscope.exams import Subject, find_exams
from vitscope.exams.prediction.prediction import PredictionAccumulator
from vitscope.results import Result, Run

STREAMING = [exam.result.exam for exam in find_exams(None)]
LIMIT, SIZE, SEEN = 60, 8, 3  # images, images per batch, batches before the signal
BATCHES = [8] * 7 + [4]
ONE = ["prediction"]

SLOW = """
import sys, time, torch, vitscope as vs
from pathlib import Path
from vitscope.engine import partial_pass as partial
from tests.exams.factories import small_transformer
from tests.engine.test_partial_pass import LIMIT, SIZE
torch.set_num_threads(1)
partial.SECONDS = float(sys.argv[2])
subject, data = small_transformer(), vs.load_data("fashion", split="test")
batches = 0
def wait(_, arguments, __):
    global batches
    if len(arguments[0]) == SIZE:
        batches += 1
        print("batch", batches, flush=True)
        if batches == 4:
            while not Path(sys.argv[1], "sent").exists():  # the signal
                time.sleep(0.01)
subject.register_forward_hook(wait)
vs.diagnose(subject, data, sys.argv[3:], limit=LIMIT, batch_size=SIZE, out=sys.argv[1])
"""


def passes(subject: nn.Module) -> list[int]:
    """The sizes of the batches that it is shown, without anatomy's two images."""
    seen: list[int] = []

    def note(_: nn.Module, arguments: tuple[torch.Tensor, ...], __: object) -> None:
        if len(arguments[0]) != 2:
            seen.append(len(arguments[0]))

    subject.register_forward_hook(note)
    return seen


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As the processes have, so that digits can be compared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def uninterrupted(*exams: str) -> dict[str, pd.DataFrame]:
    """The tables of one whole pass for these exams: others in the same pass can change how attention rounds."""
    data = vs.load_data("fashion", split="test")
    results = vs.diagnose(small_transformer(), data, list(exams), limit=LIMIT, batch_size=SIZE)
    return {exam: result.table() for exam, result in results.items()}


def assert_whole(results: dict[str, Result]) -> None:
    for exam, table in uninterrupted(*results).items():
        pd.testing.assert_frame_equal(results[exam].table(), table, check_exact=True)


def interrupt(folder: Path, number: signal.Signals, seconds: float, exams: list[str]) -> None:
    """Start a pass, and send the signal while it looks at the fourth batch."""
    script = folder / "slow.py"
    script.write_text(SLOW)
    job = Job(script, folder, str(seconds), *exams)
    job.wait_for(f"batch {SEEN + 1}\n")
    job.send(number)
    (folder / "sent").touch()
    assert job.finish().returncode != 0


def finish(
    folder: Path, exams: list[str] = ONE, batch_size: int = SIZE, seed: int = 0, scale: float = 1.0
) -> tuple[dict[str, Result], list[int]]:
    """The results, and the sizes of the batches that the model was shown for them."""
    subject = small_transformer()
    with torch.no_grad():
        next(subject.parameters()).mul_(scale)
    seen = passes(subject)
    data = vs.load_data("fashion", split="test")
    return vs.diagnose(subject, data, exams, LIMIT, batch_size, seed, out=folder), seen


@pytest.mark.parametrize(("number", "exams"), [(signal.SIGKILL, STREAMING), (signal.SIGINT, ONE)])
def test_goes_on_where_it_stopped(number: signal.Signals, exams: list[str], tmp_path: Path) -> None:
    # killed, it has what was saved last; interrupted, it gives its batch up and saves without being asked to
    kill = number == signal.SIGKILL
    interrupt(tmp_path, number, -1.0 if kill else 1e9, exams)
    assert (tmp_path / "partial" / "0-of-1.safetensors").exists()
    assert Run.open(tmp_path).state != "done"
    results, seen = finish(tmp_path, exams)
    assert seen == BATCHES[SEEN:]
    assert list(results) == exams
    assert_whole(results)
    assert not (tmp_path / "partial").exists()
    assert Run.open(tmp_path).state == "done"
    _, seen = finish(tmp_path, exams)
    assert seen == []  # and what is done is not done again


class Stop(Exception):
    """Ends a pass."""


def stopped(folder: Path, monkeypatch: pytest.MonkeyPatch, fashion: ImageData) -> Path:
    """A pass that ended by an error in its fifth batch, having saved after every one."""
    monkeypatch.setattr("vitscope.engine.partial_pass.SECONDS", -1.0)
    subject = small_transformer()
    seen = passes(subject)

    def stop(*_: object) -> None:
        if len(seen) == 5:
            raise Stop

    subject.register_forward_hook(stop)
    with pytest.raises(Stop):
        vs.diagnose(subject, fashion, ONE, limit=LIMIT, batch_size=SIZE, out=folder)
    return folder / "partial" / "0-of-1.safetensors"


def test_goes_on_after_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fashion: ImageData,
) -> None:
    stopped(tmp_path, monkeypatch, fashion)
    results, seen = finish(tmp_path)
    assert seen == BATCHES[4:]
    assert_whole(results)


@pytest.mark.parametrize("damage", ["half", "one byte", "no header", "empty"])
def test_a_damaged_state_is_ignored(
    damage: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fashion: ImageData,
) -> None:
    path = stopped(tmp_path, monkeypatch, fashion)
    content = path.read_bytes()
    flipped = content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]
    path.write_bytes(
        {"half": content[: len(content) // 2], "one byte": flipped, "no header": b"x" * 99, "empty": b""}[
            damage
        ]
    )
    results, seen = finish(tmp_path)
    assert seen == BATCHES
    assert_whole(results)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"batch_size": 30}, [30, 30]),
        ({"exams": ["prediction", "variance"]}, BATCHES),
        ({"seed": 1}, BATCHES),
        ({"scale": 2.0}, BATCHES),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_another_pass_starts_over(
    change: dict[str, Any],
    shown: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fashion: ImageData,
) -> None:
    stopped(tmp_path, monkeypatch, fashion)
    _, seen = finish(tmp_path, **change)
    assert seen == shown
    assert not (tmp_path / "partial").exists()


def accumulator(images: int) -> PredictionAccumulator:
    found = PredictionAccumulator(Subject("m", "d"))
    if images:
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(images, 10, generator=generator)
        found.update(Batch(logits, torch.arange(images) % 10, torch.arange(images)))
    return found


def test_another_number_of_processes_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Partial(tmp_path, {"prediction": "k"}, 8).save([accumulator(16)], 2, force=True)
    assert Partial(tmp_path, {"prediction": "k"}, 8).batches_done() == 2
    monkeypatch.setattr("vitscope.core.distributed.world_size", lambda: 2)
    other = Partial(tmp_path, {"prediction": "k"}, 8)
    assert other.batches_done() == 0
    alone = tmp_path / "partial" / "0-of-1.safetensors"
    alone.rename(tmp_path / "partial" / "0-of-2.safetensors")
    assert other.batches_done() == 0  # the name alone does not make it fit


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    whole = accumulator(16)
    Partial(tmp_path, {"prediction": "k"}, 8).save([whole], 2, force=True)
    empty = accumulator(0)
    Partial(tmp_path, {"prediction": "k"}, 8).load([empty])
    assert empty.finish().table().equals(whole.finish().table())


def test_nothing_is_kept_without_a_folder_or_a_key(tmp_path: Path) -> None:
    Partial(None, {"prediction": "k"}, 8).save([accumulator(4)], 1, force=True)
    unknown = Partial(tmp_path, {"prediction": None}, 8)
    unknown.save([accumulator(4)], 1, force=True)
    assert unknown.batches_done() == 0
    assert list(tmp_path.iterdir()) == []


def test_saved_only_now_and_then(tmp_path: Path) -> None:
    state = Partial(tmp_path, {"prediction": "k"}, 8)
    state.save([accumulator(4)], 1)
    assert state.batches_done() == 0
