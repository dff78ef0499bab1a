"""One tester for every exam, streaming or with passes of its own: a small model, a few images, and what must hold.

The test file of an exam may have a few lines of obvious float64 code, which its values are compared with:

    def expected_table(model, images, labels):  # {(quantity, unit or condition): value, or values in the table's order}

(of an exam of streams, `expected_table(model, frames)`). The model computes in float64, too, so that only what an exam
itself does in float32 differs: sums of `TERMS` numbers, those of the largest map. Run as a script, it does all exams in
the processes of a job and keeps their results.
"""

import gc
import importlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.every_exam import (
    CLASSES,
    CLOCK,
    OF_TASKS,
    WIDTH,
    SmallSegmenter,
    frames,
    images,
    masked,
    small_vit,
    with_little_work,
)
from tests.exams.task_models import SmallAnswerer, SmallDetector, asked, boxed
from tests.worst_order import rounding
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.data.task_data import TaskData
from vitscope.engine.exam import EXAMS, Accumulator, Batch, Procedure, Subject
from vitscope.engine.one_pass import examine
from vitscope.engine.resuming import PartialResults, read_tensors
from vitscope.engine.scores import WORD
from vitscope.results import Result
from vitscope.results.codec import encode

IMAGES, BATCH = 10, 4  # batches of 4, 4 and 2 images
ODD = (1, 3, 16)  # images one by one, batches that do not divide them, and one that could hold more
SHARED = (BATCH, 16)  # two processes have two batches and one; one and none
TERMS = 17 * WIDTH
TOLERANCE = rounding(TERMS)
FAR = 1000  # places of the data between images and the same ones further on

MODELS = {"segmentation": SmallSegmenter, "detection": SmallDetector, "vqa": SmallAnswerer}
DATA: dict[str, Callable[[int], TaskData]] = {"segmentation": masked, "detection": boxed, "vqa": asked}
MOST_ROWS = 100 * 48 + 500  # bytes of an image: detections at most, and what is there

Reference = Callable[..., Mapping[tuple[str, str | None], Any]]


def subject(name: str = "") -> nn.Module:
    """In float64; it attends to some points more than to others, and knows several classes."""
    if name in OF_TASKS:
        return MODELS[OF_TASKS[name]]().eval().double()
    model = small_vit(depth=2)
    for block in model.blocks:
        block.attn.qkv.weight.data.mul_(12)
    model.head.weight.data.normal_(std=0.5, generator=torch.Generator().manual_seed(1))
    return model.double()


@torch.no_grad()
def labelled(count: int = IMAGES) -> tuple[Tensor, Tensor]:
    """Images, and what the subject takes them for, but for every fourth."""
    shown, _ = images(count)
    found = subject()(shown.double()).argmax(1)
    return shown, torch.where(torch.arange(count) % 4 == 3, (found + 1) % CLASSES, found)


def data(name: str, times: int = 1) -> Any:
    """What an exam is shown, or `times` as much."""
    exam = EXAMS[name]
    if isinstance(exam, Procedure) and exam.needs_frames:
        return frames(3 * times)
    if name in OF_TASKS:
        return DATA[OF_TASKS[name]](IMAGES * times)
    return labelled(IMAGES * times)


def run(name: str, model: nn.Module | None = None, shown: Any = None, **said: Any) -> Result:
    """One exam, in batches of `BATCH` if nothing else is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return with_little_work(name)(
            subject(name) if model is None else model,
            data(name) if shown is None else shown,
            **{"batch_size": BATCH, **said},
        )


@cache
def whole(name: str) -> Result:
    """What an exam finds in one process that nothing interrupts."""
    return run(name)


def numbers(result: Result) -> dict[str, Any]:
    """All that a result holds, by its place in it; where a clock has a say, its table without that."""
    table = result.table()
    timed = table["quantity"].isin(CLOCK)
    return dict(_leaves(json.loads(table[~timed].to_json()) if timed.any() else encode(result)))


def _leaves(tree: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict | list):
        for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(child, f"{place}/{key}")
    else:
        yield place, tree


def assert_same(found: Result, expected: Result, exact: bool = False) -> None:
    theirs, ours = numbers(found), numbers(expected)
    assert theirs.keys() == ours.keys()
    inexact = [place for place, number in ours.items() if isinstance(number, float) and not exact]
    got, want = (np.array([part.pop(place) for place in inexact], float) for part in (theirs, ours))
    assert theirs == ours
    off = np.flatnonzero(~np.isclose(got, want, TOLERANCE, TOLERANCE))
    assert not len(off), {inexact[i]: (got[i], want[i]) for i in off[:9]}


def batch_matters(name: str) -> bool:
    """Whether the batch size is a part of what an exam measures."""
    exam = EXAMS[name]
    return exam.batch_matters or (isinstance(exam, Procedure) and exam.options is not None)


def reference(name: str) -> Reference | None:
    """What the exam's test file has to compare it with."""
    exam = EXAMS[name]
    home = exam.__module__ if isinstance(exam, type) else exam.run.__module__
    room, file = home.split(".")[-2:]
    found: Reference | None = getattr(
        importlib.import_module(f"tests.exams.{room}.test_{file}"), "expected_table", None
    )
    return found


def check_value(name: str) -> None:
    expected = reference(name)
    assert expected is not None
    table, shown = whole(name).table(), data(name)
    found = expected(subject(name), *(shown if isinstance(shown, tuple) else [shown])).items()
    assert found
    for (quantity, label), values in found:
        rows = table[table["quantity"] == quantity]
        named = rows["condition" if "condition" in rows else "unit"]
        rows = rows[named.isna() if label is None else named == label]
        values = np.atleast_1d(np.asarray(values, float))
        assert len(rows) == len(values), (quantity, label)
        scale = TOLERANCE * np.nanmax(np.abs(values), initial=1.0)
        np.testing.assert_allclose(rows["value"], values, TOLERANCE, scale, err_msg=f"{quantity}, {label}")


def check_intervals(name: str) -> None:
    """A number is between its ends."""
    table = whole(name).table()
    value, low, high = (table[column].to_numpy(float) for column in ("value", "low", "high"))
    known = np.isfinite(value) & np.isfinite(low) & np.isfinite(high)
    outside = table[known & ~((low <= value) & (value <= high))]
    assert outside.empty, outside.to_string()


def fed(name: str) -> tuple[Subject, list[Batch]]:
    """What a pass tells an accumulator of, and what it gives it."""
    exam, batches, subjects = EXAMS[name], [], []
    assert isinstance(exam, type)

    class Watched(exam):
        def update(self, batch: Batch) -> None:
            batches.append(batch)
            subjects.append(self.subject)

        def finish(self) -> Result:
            return whole(name)  # it has collected nothing itself

    examine(subject(name), data(name), [Watched], batch_size=BATCH)
    about = subjects[0]
    if name not in OF_TASKS:
        return about, batches
    return replace(about, pictures=DATA[OF_TASKS[name]](5 * FAR)), batches


def further(batches: Sequence[Batch], times: int = 1) -> list[Batch]:
    """The same images at later places of the data."""
    return [replace(batch, indices=batch.indices + times * FAR) for batch in batches]


def collected(name: str, about: Subject, batches: Sequence[Batch], start: Any = None) -> Accumulator:
    exam = EXAMS[name]
    assert isinstance(exam, type)
    accumulator = exam(about)
    if start is not None:
        accumulator.load_state(start)
    for batch in batches:
        accumulator.update(batch)
    return accumulator


def check_merging(name: str) -> None:
    """Parts merge to the whole, whichever comes first, and one that has seen nothing adds nothing."""
    about, first = fed(name)
    second = further(first)
    expected = collected(name, about, [*first, *second]).finish()
    for parts in ([], first, second), (second, [], first):
        merged, *others = (collected(name, about, part) for part in parts)
        for other in others:
            merged.merge_state(other)
        assert_same(merged.finish(), expected)
    half = collected(name, about, first)
    kept = {sums: total.clone() for sums, total in half.state().items()}
    resumed = collected(name, about, second, start=half.state())
    assert_same(resumed.finish(), expected, exact=True)
    assert all(torch.equal(half.state()[sums], total) for sums, total in kept.items())


def held(thing: Any, seen: set[int] | None = None) -> int:
    """Bytes of the tensors, arrays and texts that can be reached from a thing, and the lengths of its lists."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, type | nn.Module | Subject) or callable(thing):
        return 0
    seen.add(id(thing))
    if isinstance(thing, Tensor | np.ndarray):
        return int(thing.nbytes)
    own = len(thing) if isinstance(thing, str | bytes | list | tuple | set | dict) else 0
    return own + sum(held(part, seen) for part in gc.get_referents(thing))


def check_memory(name: str) -> None:
    """An accumulator is as large after four times the images, but for a bit of what it says starts without rows.

    What it keeps one by one may grow, but not by more than it says.
    """
    about, batches = fed(name)
    empty = collected(name, about, [])
    bits = [key for key, total in empty.state().items() if total.dtype == torch.int64 and total.shape == (0,)]
    sizes = []
    for rounds in (1, 4):
        shown = [batch for times in range(rounds) for batch in further(batches, times)]
        accumulator = collected(name, about, shown)
        places = int(max(batch.indices.max() for batch in shown)) + 1
        for key in bits:
            assert len(getattr(accumulator, key)) <= -(-places // WORD), key
            delattr(accumulator, key)
        kept = sum(getattr(accumulator, key).nbytes for key in accumulator._rows)
        assert kept <= MOST_ROWS * rounds * IMAGES
        for key in accumulator._rows:
            delattr(accumulator, key)
        sizes.append(held(vars(accumulator)))
    assert sizes[0] == sizes[1] > 0


def check_parts(name: str, folder: Path) -> None:
    """What an exam with passes of its own keeps of them is as large after three times the images."""
    sizes = []
    for times in (1, 3):
        own = folder / str(times)
        run(name, shown=data(name, times), parts=PartialResults(own, name, "key"))
        kept = [read_tensors(path)[0] for path in own.rglob("*.safetensors")]
        sizes.append(sum(tensor.nbytes for tensors in kept for tensor in tensors.values()))
    assert sizes[0] == sizes[1] > 0


class Interrupted:
    """Counts what a model is shown, and ends the pass at one of them."""

    def __init__(self, name: str, at: int | None = None) -> None:
        self.passes, self.model = 0, subject(name)

        def count(*_: object) -> None:  # a function: copies of the model have this one, too
            self.passes += 1
            if self.passes == at:
                raise KeyboardInterrupt

        self.model.register_forward_pre_hook(count)


def check_resuming(name: str, folder: Path) -> None:
    """Interrupted in its last pass, an exam goes on and finds the same digits, without doing all again."""
    once = Interrupted(name)
    assert_same(run(name, once.model), whole(name), exact=True)
    stopped = Interrupted(name, once.passes)
    with pytest.raises(KeyboardInterrupt):
        run(name, stopped.model, parts=PartialResults(folder, name, "key"))
    again = Interrupted(name)
    assert_same(run(name, again.model, parts=PartialResults(folder, name, "key")), whole(name), exact=True)
    assert again.passes < once.passes


def check_odd_batches(name: str) -> None:
    """Other batches find the same; where they are a part of what is measured, they work or are refused."""
    for size in ODD:
        found = result_or_refusal(name, batch_size=size)
        if batch_matters(name):
            assert isinstance(found, str) or found.n
        else:
            assert isinstance(found, Result), found
            assert_same(found, whole(name))


def check_empty(name: str) -> None:
    """Without images an exam says so, or has nothing to tell."""
    found = result_or_refusal(name, times=0)
    if isinstance(found, str):
        assert re.search(r"no images; expected at least one|need \d+ images|no empty sequence", found)
    else:
        assert (found.n, len(found.table())) == (0, 0)


def result_or_refusal(name: str, times: int = 1, **said: Any) -> Result | str:
    try:
        return run(name, shown=data(name, times), **said)
    except VitscopeError as error:
        return str(error)


def shared() -> list[tuple[str, int]]:
    """The exams that two processes do, with the batch size."""
    return [(name, size) for name in EXAMS for size in SHARED if size == BATCH or not batch_matters(name)]


if __name__ == "__main__":
    with distributed.process_group():
        for name, size in shared():
            result = run(name, batch_size=size)
            told = distributed.gather(json.dumps(numbers(result)))
            assert len(set(told)) == 1, f"{name}: processes disagree"
            if distributed.is_main():
                result.save(Path(sys.argv[1], str(size), name))
