"""Exams of one model, kept in a run folder so that what is finished is not done twice.

All that can share one pass over the data do; those that cannot come after it, one by one.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from vitscope.anatomy import kept_anatomies
from vitscope.anatomy.taps.capture import Stream
from vitscope.core import distributed
from vitscope.core.arguments import checked
from vitscope.core.errors import said_by
from vitscope.data import load_data
from vitscope.data.refuse_among_images import refuse_among_images
from vitscope.data.tasks.tensors import with_masks
from vitscope.drawing.figures import save_figures
from vitscope.engine.cache_key import exam_keys
from vitscope.engine.choose_exams import find_exams, fitting, tell_of_results, with_options
from vitscope.engine.exam import EXAMS, Exam, Procedure
from vitscope.engine.facts import data_name, model_facts
from vitscope.engine.one_pass import examine
from vitscope.engine.resuming import PartialResults
from vitscope.engine.same_model import refuse_other_model, tell_of_trained_images
from vitscope.engine.takes_interface import Request, takes_interface
from vitscope.models import create_model, name_of
from vitscope.models.create import tell_of_random_weights
from vitscope.results import Result, Run
from vitscope.results.codec import decode, encode
from vitscope.results.plain_files import display_name

ONE_PASS = "one pass"  # what the exams that share it keep together


@checked
def diagnose(
    model: nn.Module | str | os.PathLike[str],
    data: Any,
    exams: Sequence[str] | None = None,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    stream: Stream = "read",
    *,
    output: str | int | None = None,
    mean: Iterable[float] | float | None = None,
    std: Iterable[float] | float | None = None,
    trust_code: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Result]:
    """Examine a model: all exams share one pass over the data.

    Args:
        model: A model, or what `create_model` takes (with its pretrained weights).
        data: What `load_data` gives or takes, a Dataset, a DataLoader, a pair of tensors (images, labels), or images
            alone for exams that need no labels; for segmentation a pair, or a DataLoader, of (images, masks).
        exams: Names of exams; default: all that share one pass. "all" stands for every exam that does not take
            many times as long as that.
        limit: Use a seeded, class-stratified subset of this many images.
        batch_size: Images per forward pass.
        seed: Of the subset, the order and the bootstrap.
        device: Where to run; default: where the model is.
        out: A run folder to keep results and figures in; exams it holds already, made from the same weights,
            images and options, are not done again, and a pass that was interrupted goes on where it stopped.
        name: What to call the model; default: the name it was created by.
        stream: Where an activation follows a unit's addition directly, exams of feature maps take the map after it,
            which is what the next unit reads; "sum": the map before it.
        output: Which of its outputs holds the class scores, where that cannot be decided: a key, or a place from 0 on.
        mean: What was subtracted from pixels from 0 to 1 in the images it is given, where it does not say itself.
        std: What they were divided by.
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).
        options: Of single exams, such as {"hessian": {"batches": 4}}: arguments of their own functions.

    Returns:
        Results by exam name.
    """
    chosen = with_options(find_exams(exams), options)
    if out is not None:
        refuse_among_images(out, data)
    if not isinstance(model, nn.Module):
        name = name or display_name(model)
        tell_of_random_weights(model)
        model = create_model(model, pretrained=None, trust_code=trust_code)
    if isinstance(data, str):
        data = load_data(data, split="test")
    data = with_masks(data, limit)
    chosen = fitting(chosen, exams, data, model)
    request = Request(limit, batch_size, seed, device, name or name_of(model))
    said: dict[str, Any] = {"output": output, "mean": mean, "std": std}
    results = run_exams(model, data, chosen, request, out, stream, **said)
    tell_of_results(results, exams)
    return results


@takes_interface
def run_exams(
    model: nn.Module,
    data: Any,
    chosen: Sequence[Exam],
    request: Request,
    out: str | os.PathLike[str] | None,
    stream: Stream = "read",
    figures: bool = True,
) -> dict[str, Result]:
    """Results of the chosen exams by name (see `diagnose`); without `figures` none are drawn into the run folder."""
    names = [exam.result.exam for exam in chosen]
    tell_of_trained_images(model, data)
    with kept_anatomies():
        if out is None:
            results = {r.exam: r for r in _examined(model, data, chosen, request, stream)}
        else:
            results = _kept(model, data, chosen, request, Path(out), stream, figures)
    return {exam: results[exam] for exam in names}


def _kept(
    model: nn.Module,
    data: Any,
    chosen: Sequence[Exam],
    request: Request,
    out: Path,
    stream: Stream,
    figures: bool,
) -> dict[str, Result]:
    """Results that the run folder holds, and those that are made and put there."""
    refuse_other_model(out, model, [exam.result.exam for exam in chosen])
    recorded = {"data": data_name(data), "exams": [exam.result.exam for exam in chosen], **vars(request)}
    name = recorded.pop("name")
    if settings := {e.result.exam: json.loads(e.settings) for e in chosen if e.settings}:
        recorded["settings"] = settings
    if stream != "read":
        recorded["stream"] = stream
    if getattr(data, "broken_left_out", False):
        recorded["skip_broken"] = True
    keys = exam_keys(model, data, chosen, request, stream)
    with _start(out, model, name, recorded) if distributed.is_main() else nullcontext() as run:
        results = _finished(run, keys)
        parts = {e.result.exam: PartialResults(out, e.result.exam, keys[e.result.exam]) for e in chosen}
        for exam in results:
            parts[exam].clear_own()  # an interruption may have come between a result and this
        together = _together(out, chosen, results, keys)
        parts[ONE_PASS] = PartialResults(
            out, ONE_PASS, None if None in together.values() else json.dumps(together, sort_keys=True)
        )
        names = {e.result.exam for e in chosen if not isinstance(e, type)} - results.keys() | together.keys()
        todo = [exam for exam in chosen if exam.result.exam in names]
        for result in _examined(model, data, todo, request, stream, parts):
            if result.exam in results:
                continue
            results[result.exam] = result
            if run is not None:
                if figures:  # first: a result marks its exam as finished
                    save_figures(result, run.path / "figures")
                run.save_result(result, keys[result.exam] or "")
                parts[result.exam].clear()
        distributed.barrier()
        parts[ONE_PASS].clear()
        return results


def _together(
    out: Path, chosen: Sequence[Exam], results: Mapping[str, Result], keys: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The exams of the one pass, with their keys: those without a result.

    If a pass was interrupted while its results were written, all that it was for: what it has collected is there, and
    a pass for fewer exams may differ from it in the last digit.
    """
    shared = {e.result.exam: keys[e.result.exam] for e in chosen if isinstance(e, type)}
    missing = {exam: key for exam, key in shared.items() if exam not in results}
    kept = distributed.broadcast(PartialResults(out, ONE_PASS, "").kept_key()) if missing else None
    try:
        before = json.loads(kept or "{}")
    except ValueError:
        before = {}
    if isinstance(before, dict) and missing.items() <= before.items() <= shared.items():
        return {exam: key for exam, key in shared.items() if exam in before}
    return missing


def _examined(
    model: nn.Module,
    data: Any,
    exams: Sequence[Exam],
    request: Request,
    stream: Stream,
    parts: Mapping[str, PartialResults] = MappingProxyType({}),
) -> Iterator[Result]:
    """Results as they come: first of the shared pass, then of the others."""
    if shared := [exam for exam in exams if isinstance(exam, type)]:
        found = examine(model, data, shared, **vars(request), parts=parts.get(ONE_PASS), stream=stream)
        yield from found.values()
    for exam in exams:
        if isinstance(exam, Procedure):
            own: dict[str, Any] = {"parts": parts.get(exam.result.exam)} if exam.resumable else {}
            own |= {"stream": stream} if exam.needs_maps else {}
            with said_by(exam.result.exam):
                result = exam.run(model, data, **vars(request), **own)
            yield result


def _finished(run: Run | None, keys: dict[str, str | None]) -> dict[str, Result]:
    """Results that need not be made again; the main process, which alone has the folder, tells the others."""
    found = {exam: run.finished(exam, key) for exam, key in keys.items() if key is not None} if run else {}
    told = distributed.broadcast({exam: encode(r) for exam, r in found.items() if r is not None})
    return {exam: decode(EXAMS[exam].result, payload) for exam, payload in told.items()}


def _start(out: Path, model: nn.Module, name: str, options: dict[str, Any]) -> Run:
    first = next(model.parameters(), None)
    device = options["device"] or (first.device if first is not None else "cpu")
    return Run.start(out, options, seed=options["seed"], device=str(device), model=model_facts(model, name))
