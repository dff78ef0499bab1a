"""Exams under way: what is kept, found again and forgotten, and who goes on; by real signals to real processes."""

import json
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.cases import one_in
from tests.exams.factories import small_transformer
from tests.processes import Job
from vitscope.data import ImageData
from vitscope.engine.exam import Batch
from vitscope.engine.resuming import PartialResults, ResumablePass, read_tensors, write_tensors
from vitscope.exams import Subject, find_exams, occlusion
from vitscope.exams.prediction.prediction import PredictionAccumulator
from vitscope.results import Result, Run


def part(number: float) -> dict[str, torch.Tensor]:
    return {"sums": torch.full((2, 3), number, dtype=torch.float64), "n": torch.tensor(7)}


def test_parts_are_found_again_by_the_same_key_only(tmp_path):
    with PartialResults(tmp_path, "corruption", "key") as parts:
        assert parts.finished(["fog 1", "fog 2"]) == {}
        parts.put("fog 1", part(1.0))
        parts.put("snow 3", part(2.0))
    found = PartialResults(tmp_path, "corruption", "key").finished(["fog 1", "fog 2"])
    assert list(found) == ["fog 1"]
    assert torch.equal(found["fog 1"]["sums"], part(1.0)["sums"])
    assert PartialResults(tmp_path, "corruption", "other").finished(["fog 1"]) == {}
    assert PartialResults(tmp_path, "landscape", "key").finished(["fog 1"]) == {}


def test_an_interruption_keeps_what_was_finished(tmp_path):
    def interrupted() -> None:
        with PartialResults(tmp_path, "e", "key") as parts:
            parts.put("a", part(1.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with PartialResults(tmp_path, "e", "key") as again:
        assert list(again.finished(["a", "b"])) == ["a"]
        again.put("b", part(2.0))
    assert sorted(PartialResults(tmp_path, "e", "key").finished(["a", "b"])) == ["a", "b"]


def test_cleared_parts_leave_nothing(tmp_path):
    with PartialResults(tmp_path, "e", "key") as parts:
        parts.put("a", part(1.0))
    assert (tmp_path / "parts").exists()
    parts.clear()
    assert not (tmp_path / "parts").exists()


def test_nothing_is_kept_without_a_key_or_a_folder(tmp_path):
    for parts in (PartialResults(), PartialResults(tmp_path, "e", None)):
        with parts:
            parts.put("a", part(1.0))
        assert parts.finished(["a"]) == {}
    assert list(tmp_path.iterdir()) == []


def test_tensors_and_facts_come_back(tmp_path):
    tensors = {"a": torch.randn(3, 4, dtype=torch.float64), "b": torch.arange(5)}
    write_tensors(tmp_path / "x.safetensors", tensors, {"key": "k"})
    found, facts = read_tensors(tmp_path / "x.safetensors")
    assert facts["key"] == "k"
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": torch.ones(100)}, {"key": "k"})
    content = bytearray(path.read_bytes())
    content[-7] ^= 1  # one bit of one number
    path.write_bytes(content)
    assert read_tensors(path) == ({}, {})
    path.write_bytes(content[:50])
    assert read_tensors(path) == ({}, {})
    assert read_tensors(tmp_path / "absent.safetensors") == ({}, {})


STREAMING = [exam.result.exam for exam in find_exams(None) if not exam.task]
LIMIT, SIZE, SEEN = 60, 8, 3  # images, images per batch, batches before the signal
BATCHES = [8] * 7 + [4]
ONE = ["prediction"]
KEPT = "parts/one pass/0.safetensors"

SLOW = """
import sys, time, torch, vitscope as vs
from pathlib import Path
from vitscope.engine.resuming import PartialResults
from tests.exams.factories import small_transformer
from tests.engine.test_resuming import LIMIT, SIZE
torch.set_num_threads(1)
PartialResults.SECONDS = float(sys.argv[2])
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
    assert (tmp_path / KEPT).exists()
    assert Run.open(tmp_path).state != "done"
    results, seen = finish(tmp_path, exams)
    assert seen == BATCHES[SEEN:]
    assert list(results) == exams
    assert_whole(results)
    assert not (tmp_path / "parts").exists()
    assert Run.open(tmp_path).state == "done"
    _, seen = finish(tmp_path, exams)
    assert seen == []  # and what is done is not done again


class Stop(Exception):
    """Ends a pass."""


def stopped(folder: Path, monkeypatch: pytest.MonkeyPatch, fashion: ImageData) -> Path:
    """A pass that ended by an error in its fifth batch, having saved after every one."""
    monkeypatch.setattr("vitscope.engine.resuming.PartialResults.SECONDS", -1.0)
    subject = small_transformer()
    seen = passes(subject)

    def stop(*_: object) -> None:
        if len(seen) == 5:
            raise Stop

    subject.register_forward_hook(stop)
    with pytest.raises(Stop):
        vs.diagnose(subject, fashion, ONE, limit=LIMIT, batch_size=SIZE, out=folder)
    return folder / KEPT


def test_a_pass_whose_results_were_half_written_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch, fashion: ImageData, tmp_path: Path
) -> None:
    """Not for the others alone, either: what looks at attention decides how its pass rounds."""
    exams, written = ["attention", "prediction", "variance"], []
    save = Run.save_result

    def save_one(run: Run, result: Result, key: str) -> None:
        if written:
            raise Stop
        written.append(result.exam)
        save(run, result, key)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_result", save_one)
        with pytest.raises(Stop):
            finish(tmp_path, exams)
    assert written == ["attention"]
    results, seen = finish(tmp_path, exams)
    assert seen == []
    assert_whole(results)
    assert not (tmp_path / "parts").exists()


def test_a_pass_for_exams_that_nobody_wants_any_more_is_left_alone(
    tmp_path: Path, fashion: ImageData
) -> None:
    key = json.dumps({"attention": "a", "prediction": "b"})
    with PartialResults(tmp_path, "one pass", key) as kept:
        kept.put("process 0 of 1, batches of 8", {"batches": torch.tensor(3)})
    results, seen = finish(tmp_path)
    assert seen == BATCHES
    assert_whole(results)


def test_parts_of_a_finished_exam_are_removed_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch, fashion: ImageData, tmp_path: Path
) -> None:
    def die(_: PartialResults) -> None:
        raise Stop

    def measure() -> Any:
        options = {"hessian": {"batches": 1, "k": 1}}
        return vs.diagnose(small_transformer(), fashion, ["hessian"], limit=8, out=tmp_path, options=options)

    with monkeypatch.context() as patch:
        patch.setattr(PartialResults, "clear", die)
        with pytest.raises(Stop):
            measure()
    assert (tmp_path / "parts/hessian/0.safetensors").exists()
    measure()
    assert not (tmp_path / "parts").exists()


def test_goes_on_after_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fashion: ImageData,
) -> None:
    stopped(tmp_path, monkeypatch, fashion)
    results, seen = finish(tmp_path)
    assert seen == BATCHES[4:]
    assert_whole(results)


@pytest.mark.parametrize("damage", one_in(3, ["half", "one byte", "no header", "empty"]))
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
    assert not (tmp_path / "parts").exists()


def accumulator(images: int) -> PredictionAccumulator:
    found = PredictionAccumulator(Subject("m", "d"))
    if images:
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(images, 10, generator=generator)
        found.update(Batch(logits, torch.arange(images) % 10, torch.arange(images)))
    return found


def test_another_number_of_processes_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(tmp_path, 2).save({"prediction": accumulator(16)})
    assert resumable(tmp_path).done == 2
    assert resumable(tmp_path, batch_size=16).done == 0
    assert resumable(tmp_path, "other").done == 0
    monkeypatch.setattr("vitscope.core.distributed.world_size", lambda: 2)
    assert resumable(tmp_path).done == 0
    monkeypatch.setattr("vitscope.core.distributed.rank", lambda: 1)
    (tmp_path / KEPT).rename((tmp_path / KEPT).with_name("1.safetensors"))
    assert resumable(tmp_path).done == 0  # the name alone does not make it fit


def resumable(folder: Path, key: str = "key", batch_size: int = 8) -> ResumablePass:
    return ResumablePass(PartialResults(folder, "one pass", key), batch_size)


def counted(folder: Path, batches: int) -> ResumablePass:
    """A pass that has seen some batches and has not yet been told to keep anything."""
    found = resumable(folder)
    for _ in range(batches):
        found.count({"prediction": accumulator(0)})
    return found


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    whole, empty = accumulator(16), accumulator(0)
    counted(tmp_path, 2).save({"prediction": whole})
    resumable(tmp_path).restore({"prediction": empty})
    assert empty.finish().table().equals(whole.finish().table())


def test_saved_only_now_and_then_unless_it_is_left(tmp_path: Path) -> None:
    counted(tmp_path, 3)
    assert resumable(tmp_path).done == 0
    half = accumulator(16)
    with resumable(
        tmp_path
    ) as passing:  # kept batch by batch: whole when it is left in the middle of the next
        passing.keep({"prediction": half})
        half.n += 1
    again, found = resumable(tmp_path), accumulator(0)
    again.restore({"prediction": found})
    assert (again.done, int(found.n)) == (1, 16)


FEW = {"side": 4, "shares": (0.5,)}


class Counting(nn.Module):
    """A model that counts its passes, and is interrupted in the middle of one if told so."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_transformer()
        self.pretrained_cfg = {**self.inner.pretrained_cfg, "input_size": (3, 32, 32)}
        self.passes, self.last = 0, 10**9

    def forward(self, images: Tensor) -> Tensor:
        self.passes += 1
        if self.passes > self.last:
            raise KeyboardInterrupt
        return self.inner(images)


def test_only_the_same_key_goes_on(fashion: ImageData, tmp_path: Path) -> None:
    request = {"limit": 60, "batch_size": 16, **FEW}
    whole = Counting()
    occlusion(whole, fashion, **request)
    model = Counting()
    model.last = int(0.7 * whole.passes)  # in the third of four batches
    with pytest.raises(KeyboardInterrupt):
        occlusion(model, fashion, parts=PartialResults(tmp_path, "occlusion", "key"), **request)
    for key, most in (("key", 0.6 * whole.passes), ("another", whole.passes)):
        model.passes, model.last = 0, 10**9
        occlusion(model, fashion, parts=PartialResults(tmp_path, "occlusion", key), **request)
        assert model.passes <= most
        assert (model.passes == whole.passes) == (key == "another")


def test_a_pass_with_other_batches_starts_from_the_beginning(fashion: ImageData, tmp_path: Path) -> None:
    model = Counting()
    occlusion(
        model, fashion, limit=20, batch_size=10, parts=PartialResults(tmp_path, "occlusion", "key"), **FEW
    )
    first, model.passes = model.passes, 0
    occlusion(
        model, fashion, limit=20, batch_size=20, parts=PartialResults(tmp_path, "occlusion", "key"), **FEW
    )
    assert 0 < model.passes < first  # one batch instead of two, all of it
