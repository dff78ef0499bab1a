"""What time and memory grow with: images, units, classes, tokens, parameters, processes; each beside its formula.

Every number comes from a process of its own, which does one exam at one size and says how much CPU time it took and how
much memory it needed at most beyond what it held before. Sizes are a constant factor r apart, so that a constant part
drops out: a cost a + b s^p has p = log((c3 - c2) / (c2 - c1)) / log r. A growth that is less than noise counts as 0.
"""

import math
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.utils.data import Dataset

from tests.processes import READY
from tests.prove.record import Row, Trial

MB = 2**20
FLAT = {"time": 0.1, "memory": 16 * MB}  # a growth below this is noise: seconds, bytes
SLACK = 0.3  # between an exponent that was fitted and its formula
CLASSES = 10
MANY = 1_000_000
PLACES = 64  # bytes that may be kept of an image: its place, and whether it was seen and right

Costs = dict[str, float]  # time, memory


class Made(Dataset[Any]):
    """As many images as wanted, none of which exists before it is asked for."""

    def __init__(self, n: int, side: int = 32, classes: int = CLASSES) -> None:
        self.n, self.kinds = n, classes
        generator = torch.Generator().manual_seed(0)
        self.pool = 1.8 * torch.rand(64, 3, side, side, generator=generator) - 0.95

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.pool[i % 64] + (i % 997) / 1e4, i % self.kinds


def vit(side: int = 32, patch: int = 8, depth: int = 2, width: int = 16, classes: int = CLASSES) -> nn.Module:
    """A small vision transformer that says how its images are normalised."""
    torch.manual_seed(0)
    model = VisionTransformer(side, patch, 3, classes, embed_dim=width, depth=depth, num_heads=2, mlp_ratio=2)
    model.pretrained_cfg = {
        "input_size": (3, side, side),
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
        "crop_pct": 1.0,
    }
    return model.eval()


@dataclass(frozen=True)
class Growth:
    """An exam along an axis: how it is done at a size, and the powers of the size that it may cost."""

    axis: str
    exam: str
    sizes: tuple[int, ...]  # a constant factor apart
    work: Callable[[int], Any]  # prepares at a size, and gives what is to be measured
    time: float
    memory: float


def exam_of(name: str, model: nn.Module, data: Any, **options: Any) -> Callable[[], Any]:
    """One exam, ready to be done."""
    import vitscope as vs

    return partial(getattr(vs.exams, name), model, data, **options)


def tensors(n: int, side: int = 32, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """Images that are all there, so that only the exam costs anything."""
    shown = 2 * torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0)) - 1
    return shown, torch.arange(n) % classes


def _images(name: str, n: int) -> Callable[[], Any]:
    return exam_of(name, vit(), Made(n), batch_size=500, **OPTIONS.get(name, {}))


def _units(name: str, depth: int) -> Callable[[], Any]:
    return exam_of(name, vit(depth=depth), tensors(64), batch_size=64, **OPTIONS.get(name, {}))


def _classes(name: str, classes: int) -> Callable[[], Any]:
    options = {**OPTIONS.get(name, {}), "batch_size": 64}
    return exam_of(name, vit(classes=classes), tensors(256, classes=classes), **options)


def _tokens(name: str, tokens: int) -> Callable[[], Any]:
    side = 4 * math.isqrt(tokens)
    options = {**OPTIONS.get(name, {}), "batch_size": 4}
    return exam_of(name, vit(side, 4, depth=1), tensors(4, side), **options)


def _parameters(name: str, parameters: int) -> Callable[[], Any]:
    width = 2 * round(math.sqrt(parameters / 16) / 2)  # two blocks of 8 width² each
    options = {**OPTIONS.get(name, {}), "batch_size": 8}
    return exam_of(name, vit(patch=16, width=width), tensors(8), **options)


OPTIONS: dict[str, dict[str, Any]] = {
    "adversarial": {"strengths": (2.0,), "steps": 2},
    "corruption": {"types": ("brightness", "contrast"), "severities": (1,), "workers": 0, "cache": False},
    "hessian": {"k": 2, "batches": 1, "tol": 1e-2, "recipe": None},
    "landscape": {"points": 3, "recipe": None},
    "occlusion": {"shares": (0.5,)},
    "uncertainty": {"passes": 2},
}
STREAMING = ("prediction", "fourier", "variance", "cka", "attention", "token_norms", "effective_rank")


def growths() -> Iterator[Growth]:
    """All of them. Formulas: of one pass, time is that of the images and memory that of one batch."""
    for name in STREAMING:
        yield Growth("images", name, (1_000, 10_000, 100_000), partial(_images, name), 1, 0)
    for name in ("lesion", "occlusion", "adversarial", "corruption"):
        yield Growth("images", name, (500, 2_000, 8_000), partial(_images, name), 1, 0)
    for name in STREAMING:
        pairs = 2 if name == "cka" else 1  # of all pairs of units
        yield Growth("units", name, (4, 16, 64), partial(_units, name), pairs, pairs)
    yield Growth("units", "lesion", (4, 8, 16), partial(_units, "lesion"), 2, 1)  # a pass without each
    for name in ("prediction", "adversarial", "lesion", "occlusion"):
        yield Growth("classes", name, (210, 2_100, 21_000), partial(_classes, name), 1, 1)
    for name in ("fourier", "variance", "effective_rank", "cka"):
        yield Growth("tokens", name, (256, 1_024, 4_096), partial(_tokens, name), 2, 2)  # those of the pass
    for name in ("attention", "softmax_gradient", "token_norms"):
        yield Growth("tokens", name, (256, 1_024, 4_096), partial(_tokens, name), 2, 2)  # of all pairs
    for name in ("variance", "landscape"):
        sizes = (3_000_000, 30_000_000, 300_000_000)
        yield Growth("parameters", name, sizes, partial(_parameters, name), 1, 1)
    yield Growth(
        "parameters", "hessian", (100_000, 1_000_000, 10_000_000), partial(_parameters, "hessian"), 1.3, 1
    )


def measured(growth: Growth, size: int) -> Costs:
    """What the exam costs at a size, in a process that does nothing else."""
    ours, theirs = READY.Pipe(duplex=False)
    process = READY.Process(target=_measure, args=(growth.axis, growth.exam, size, theirs))
    process.start()
    theirs.close()
    try:
        costs: Costs | str = ours.recv()
    except EOFError:
        costs = f"ended with code {process.exitcode}"
    process.join()
    if isinstance(costs, str):
        raise RuntimeError(f"{growth.exam} at {size:,} {growth.axis}: {costs}")
    return costs


def _measure(axis: str, exam: str, size: int, pipe: Any) -> None:
    growth = next(one for one in growths() if (one.axis, one.exam) == (axis, exam))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        growth.work(growth.sizes[0])() if size == growth.sizes[
            0
        ] and axis != "parameters" else None  # first calls
        run = growth.work(size)
        before, start = _forget_peak(), time.process_time()
        run()
        pipe.send({"time": time.process_time() - start, "memory": _resident("VmHWM") - before})
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")


def _forget_peak() -> float:
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(kind: str) -> float:
    found = re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024.0 * int(found[1])


def exponent(sizes: tuple[int, ...], costs: list[float], flat: float) -> float:
    """The power of the size that the cost grows with, beside a constant."""
    first, second = (costs[i + 1] - costs[i] for i in (0, 1))
    factor = math.log(sizes[-1] / sizes[-2])
    if second < flat:
        return 0.0
    if first < flat:  # only the last step is seen at all: from the whole cost, which is less than what grows
        return max(0.0, math.log(max(costs[2], flat) / max(costs[1], flat)) / factor)
    return max(0.0, math.log(second / first) / factor)


def rows(trial: Trial) -> Iterator[Row]:
    """A row for each exam on each axis, then many images at once, then several processes."""
    for growth in growths():
        began = time.monotonic()
        costs = [measured(growth, size) for size in growth.sizes]
        found = {kind: exponent(growth.sizes, [one[kind] for one in costs], FLAT[kind]) for kind in FLAT}
        beyond = [kind for kind in FLAT if found[kind] > getattr(growth, kind) + SLACK]
        said = ", ".join(
            f"{kind} ~ {growth.axis}^{found[kind]:.2f} (formula {getattr(growth, kind):g})" for kind in FLAT
        )
        most = f"{costs[-1]['time']:.1f} s and {costs[-1]['memory'] / MB:.0f} MB at {growth.sizes[-1]:,}"
        row = _row(
            growth.axis,
            growth.exam,
            f"{growth.exam} against {growth.axis}: {said}; {most}",
            len(costs),
            began,
        )
        print(
            f"scale: {row.what}{' FINDING: grows worse than it must: ' + ', '.join(beyond) if beyond else ''}",
            flush=True,
        )
        yield replace(row, findings=len(beyond))
    yield million(trial)
    yield from processes(trial)


def million(trial: Trial) -> Row:
    """One pass over a million images: memory as after the first ten thousand."""
    began = time.monotonic()
    growth = Growth("images", "prediction", (10_000, MANY), partial(_images, "prediction"), 1, 0)
    few, many = (measured(growth, size) for size in growth.sizes)
    more = (many["memory"] - few["memory"]) / (growth.sizes[1] - growth.sizes[0])
    flat = more < PLACES
    over = f"{more:.0f} bytes more for each after {growth.sizes[0]:,}, its place in the order among them"
    said = f"{MANY:,} images of 32 pixels in one pass: {over}, {many['time']:.0f} s of CPU"
    print(f"scale: {said}", flush=True)
    return replace(_row("images", "million", said, 1, began), findings=int(not flat))


def processes(trial: Trial) -> Iterator[Row]:
    """Two and four processes: the digits of one; the speed-up is reported."""
    import tempfile

    from tests.processes import run

    with tempfile.TemporaryDirectory() as folder:
        took, tables = {}, {}
        words = "-m vitscope.cli.app diagnose vit_mini --data fashion --limit 2000 --batch-size 50 --exams".split()
        exams = ("prediction", "fourier", "variance", "cka", "attention")
        for count in (1, 2, 4):
            began, out = time.monotonic(), Path(folder, str(count))
            done = run(*words, *exams, "--out", out, processes=count)
            took[count] = time.monotonic() - began
            if done.returncode:
                raise RuntimeError(f"{count} processes ended with {done.returncode}: {done.stderr}")
            tables[count] = _numbers(out)
            if count > 1:
                worst = _largest_difference(tables[1], tables[count])
                apart = f"{len(exams)} exams differ from one process's by at most {worst:.0e} (relative)"
                faster = f"{took[1] / took[count]:.2f} times as fast, starting included"
                said = f"{count} processes: {apart}; {faster}"
                row = _row("processes", str(count), said, len(exams), began)
                print(f"scale: {said}", flush=True)
                yield replace(row, findings=int(worst > 1e-9))


def _numbers(run_folder: Path) -> dict[str, Any]:
    import pandas as pd

    found = sorted(run_folder.rglob("exams/*/*.csv"))
    return {path.relative_to(run_folder).as_posix(): pd.read_csv(path) for path in found}


def _largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    assert one.keys() == other.keys()
    worst = 0.0
    for name, table in one.items():
        theirs = other[name]
        assert list(table.columns) == list(theirs.columns), name
        assert len(table) == len(theirs), name
        for column in table.select_dtypes("number"):
            a, b = table[column].to_numpy(float), theirs[column].to_numpy(float)
            scale = max(abs(a[a == a]).max(initial=0.0), 1e-300)
            gap = abs(a - b)
            assert ((gap == gap) == ((a == a) & (b == b))).all(), name
            worst = max(worst, float(gap[gap == gap].max(initial=0.0) / scale))
    return worst


def _row(axis: str, kind: str, what: str, cases: int, began: float) -> Row:
    seconds = round(time.monotonic() - began, 1)
    return Row("scale", f"{axis} {kind}", what, cases, 0, seconds, "python -m tests.prove scale", 0)
