"""Two models on one page, side by side and image by image.

Each is a run that was examined already, or something that still has to be: the name of a model, or the run folder of a
training. What still has to be examined is examined as the other one was, so that the images are the same.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from vitscope.anatomy.taps.capture import Stream
from vitscope.core import distributed
from vitscope.core.arguments import Address, checked
from vitscope.core.errors import VitscopeError, warn
from vitscope.core.interface import NOTHING_SAID, Interface
from vitscope.data import load_data
from vitscope.data.refuse_among_images import refuse_among_images
from vitscope.engine.choose_exams import NothingToShow, lacks_frames
from vitscope.exams import EXAMS, diagnose, find_exams
from vitscope.models import create_model
from vitscope.models.create import check_name, tell_of_random_weights
from vitscope.models.trust import allow_data
from vitscope.report import report
from vitscope.report.subject import find_runs
from vitscope.results import Result, Run
from vitscope.results.examined import Examination, all_examinations, by_exam, examinations
from vitscope.results.paired import Replicated, check_same_images
from vitscope.results.plain_files import check_page, default_folder, display_name, refuse_same, run_folders

DATA = "fashion"


@dataclass(frozen=True)
class PairRequest:
    """How a model is made and `diagnose` called; without data and exams: as for the other model."""

    data: str | None = None
    split: str = "test"
    exams: Sequence[str] | None = None
    limit: int | None = None
    batch_size: int = 128
    seed: int = 0
    device: str | torch.device | None = None
    interface: Interface = NOTHING_SAID
    skip_broken: bool = False
    creation: Mapping[str, Any] = field(default_factory=dict)  # for `create_model`
    stream: Stream = "read"
    options: Mapping[str, Mapping[str, Any]] | None = None
    recorded: bool = False  # what was asked is in a run; nobody asks for it now

    @property
    def trust_code(self) -> bool:
        """Whether code that models, runs and data name may be run."""
        return bool(self.creation.get("trust_code", False))


@checked
def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    data: str | None = None,
    split: str = "test",
    exams: Sequence[str] | None = None,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    out: str | os.PathLike[str] | None = None,
    page: str | os.PathLike[str] | None = None,
    title: str | None = None,
    docs: Address | None = None,
    *,
    output: str | int | None = None,
    mean: Iterable[float] | float | None = None,
    std: Iterable[float] | float | None = None,
    skip_broken: bool = False,
    **creation: Any,
) -> Path:
    """Write a page about two models.

    Args:
        first: An examined run folder, or what `create_model` takes.
        second: The same; differences are of this one minus the first.
        data: Where images come from; default: those that the other one was examined on, or "fashion" if neither was.
        split: Which part of `data`.
        exams: Names of exams; default: those of the other one, or all that share one pass. With `data` given, limit,
            batch_size and seed count too; else they are those of the other one.
        limit: Use this many images.
        batch_size: Images per forward pass.
        seed: Of the subset and the bootstrap.
        device: Where to run; default: a GPU if there is one.
        out: Folder for the runs that have to be made, and for the page; default: runs/compare/DATA/FIRST-SECOND.
        page: The file to write; default: `report.html` in `out`.
        title: What stands on top.
        docs: Address of the documentation, see `report`.
        output: Of models that are examined here, which output holds the class scores (see `diagnose`).
        mean: Of their images, what was subtracted from pixels from 0 to 1.
        std: What they were divided by.
        skip_broken: Pass over image files that cannot be decoded (see `load_data`).
        creation: Passed on to `create_model`: pretrained, num_classes, img_size, trust_code ...

    Returns:
        The path of the page.
    """
    folder = Path(out) if out is not None else folder_of_pair(first, second, data, split)
    path = Path(page) if page is not None else folder / "report.html"
    check_page(path)
    said = NOTHING_SAID.merged(output, mean, std)
    request = PairRequest(data, split, exams, limit, batch_size, seed, device, said, skip_broken, creation)
    runs = examined_runs(first, second, request, folder)
    if distributed.is_main():
        report(runs, path, title, docs)
    return path


def folder_of_pair(
    first: str | os.PathLike[str], second: str | os.PathLike[str], data: str | None, split: str
) -> Path:
    """Where two models on this data go, or on that of the run beside them, if nobody says where."""
    names = [os.fspath(first), os.fspath(second)]
    examined = next((name for name in names if _is_examined(Path(name))), None)
    if data is None and examined is not None:
        for made in all_examinations(Run.open(examined))[-1:]:
            data, split = made.spec or made.data, made.split if made.spec else split
    return default_folder("compare", data or DATA, split, names)


def examined_runs(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    request: PairRequest,
    out: str | os.PathLike[str],
) -> list[Path]:
    """Examine what has to be examined; the run folders of the two. `compare` documents the arguments."""
    names = [os.fspath(first), os.fspath(second)]
    refuse_same(names)
    examined = [name for name in names if _is_examined(Path(name))]
    _refuse_without_effect(request, len(examined))
    wanting = [name for name in names if name not in examined]
    requests = _beside(Run.open(examined[0]), request) if len(examined) == 1 else [request]
    if not wanting:
        _tell_of_other_images(names)
    for name in wanting:
        refuse_among_images(out, *(one.data for one in requests))
        check_name(name, request.trust_code)
    folders = run_folders(wanting, None, Path(out))
    open_data = cache(load_data)  # once for both models
    for name, folder in folders.items():
        _examine(name, folder, requests, open_data)
    runs = [folders.get(name, Path(name)) for name in names]
    if len(examined) == 1 and distributed.is_main():
        _tell_of_other_images(runs, refuse=False)
    return runs


def _refuse_without_effect(request: PairRequest, examined: int) -> None:
    """Options of an examination that nothing is examined by."""
    usual = PairRequest()
    fields = ("data", "split", "exams", "limit", "batch_size", "seed")
    said = [field for field in fields if getattr(request, field) != getattr(usual, field)]
    if examined == 2 and said:
        raise VitscopeError(
            f"{_flag(said[0])} is about examining, and both runs are examined already; leave it out"
        )
    said = [field for field in said if field != "exams"]
    if examined == 1 and said and "data" not in said:
        raise VitscopeError(
            f"{_flag(said[0])} has no effect: one model is examined as the run beside it was; leave it out, or add "
            "--data"
        )


def _flag(field: str) -> str:
    return f"{field} (--{field.replace('_', '-')})"


def _tell_of_other_images(runs: Sequence[str | Path], refuse: bool = True) -> None:
    """Warn of exams that the two did not do on the same images; refuse runs of which that is so of all."""
    first, second = find_runs(runs)
    common = [exam for exam in first.results if exam in second.results]
    apart = {exam: why for exam in common if (why := _apart(first.results[exam], second.results[exam]))}
    for exam, why in apart.items():
        if refuse and len(apart) == len(common):
            raise VitscopeError(why)
        warn(f"{exam} is left out of the differences: {why}")


def _apart(ours: Result, theirs: Result) -> str:
    """Why two results are not of the same images; empty if they are."""
    try:
        check_same_images(ours, theirs)
    except VitscopeError as error:
        drawn = isinstance(ours, Replicated) and isinstance(theirs, Replicated)
        if drawn or (ours.data, ours.n) != (theirs.data, theirs.n):
            return str(error)
    return ""


def _is_examined(path: Path) -> bool:
    return path.is_dir() and any(path.glob("exams/*/result.json"))


def _beside(run: Run, request: PairRequest) -> list[PairRequest]:
    """How the other model is examined: as the run was, as far as the request does not say."""
    made = examinations(run)
    if request.data is not None and (request.exams is not None or not made):
        return [request]
    if not made:
        raise VitscopeError(
            f"{run.path} does not say how it was examined; say what to do with the other: --data fashion"
        )
    if request.data is not None:
        return [
            replace(request, exams=one.exams, stream=one.stream, options=one.options, recorded=True)
            for one in made
        ]
    recorded = request.exams is None
    chosen = made if request.exams is None else _by_exam(made, request.exams)
    return [_request(one, run.path, request, recorded) for one in chosen]


def _by_exam(made: Sequence[Examination], exams: Sequence[str]) -> list[Examination]:
    """Each of these exams as the run has it; those that it lacks as the last one of it was made."""
    if "all" in exams:
        known = {exam.result.exam for exam in find_exams(exams)}
        own = {exam: said for exam, said in made[-1].options.items() if exam in known}
        return [replace(made[-1], exams=tuple(exams), options=own)]
    return by_exam(made, exams)


def _request(made: Examination, path: Path, asked: PairRequest, recorded: bool) -> PairRequest:
    """What is asked, but examined as a run was."""
    if made.spec is None:
        raise VitscopeError(
            f"{path} was examined on {made.data}, which has no name to load it by; use --data NAME for both"
        )
    allow_data(made.spec, path, asked.trust_code)
    return replace(
        asked,
        data=made.spec,
        split=made.split,
        exams=made.exams,
        limit=made.limit,
        batch_size=made.batch_size,
        seed=made.seed,
        stream=made.stream,
        options=made.options,
        skip_broken=asked.skip_broken or made.skip_broken,
        recorded=recorded,
    )


def _exams(request: PairRequest, data: Any) -> Sequence[str] | None:
    """The exams; earlier versions also recorded those about streams that had nothing to show on pictures."""
    if request.exams is None or not request.recorded:
        return request.exams
    return [name for name in request.exams if name not in EXAMS or not lacks_frames(EXAMS[name], data)]


def _examine(name: str, folder: Path, requests: Sequence[PairRequest], open_data: Callable[..., Any]) -> None:
    first = requests[0]
    torch.manual_seed(first.seed)  # weights that are not loaded are the same each time, in each process
    model = create_model(name, **{"pretrained": None, **first.creation})
    tell_of_random_weights(name, first.creation.get("pretrained"))
    for request in requests:
        data = open_data(request.data or DATA, split=request.split, skip_broken=request.skip_broken)
        with warnings.catch_warnings():
            if request.recorded:
                warnings.simplefilter("ignore", NothingToShow)  # nobody has asked for it
            diagnose(
                model,
                data,
                _exams(request, data),
                limit=request.limit,
                batch_size=request.batch_size,
                seed=request.seed,
                device=request.device or ("cuda" if torch.cuda.is_available() else "cpu"),
                out=folder,
                name=display_name(name),
                stream=request.stream,
                options=request.options,
                **request.interface.to_dict(),
            )
