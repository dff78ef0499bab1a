"""One pass over the data for any number of exams: the maps are tapped once and handed to all of them."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from vitscope import distributed
from vitscope.anatomy import Anatomy, Tap, Unit, anatomy, preserved
from vitscope.data import batches, class_count, data_config
from vitscope.errors import UnsupportedModel, VitscopeError
from vitscope.exams.base import Accumulator, Batch, Subject
from vitscope.exams.identity import data_name
from vitscope.models import name_of
from vitscope.results import Result, UnitRow

CHUNK = 1 << 21  # numbers of a map measured at once on a CPU: few enough to stay in its cache

Images = tuple[Tensor, Tensor, Tensor]  # images, labels, indices


def examine(
    model: nn.Module,
    data: Any,
    exams: Sequence[type[Accumulator]],
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
) -> dict[str, Result]:
    """Run `exams` in one pass and return their results by exam name.

    The model is in evaluation mode inside and left as it was found. Under torchrun each process takes its
    share of the batches, and all return the same results.

    Args:
        model: Any vision model that anatomy understands.
        data: What `load_data` gives, a Dataset, a DataLoader, or a pair of tensors (images, labels).
        exams: Accumulator types.
        limit: Use a seeded, class-stratified subset of this many images.
        batch_size: Images per forward pass.
        seed: Of the subset, the order and the bootstrap.
        device: Where to run; default: where the model is.
        name: What to call the model in the results.
    """
    with preserved(model), _placed(model, device) as place:
        torch.manual_seed(seed)
        labelled = any(exam.needs_labels for exam in exams)
        share = partial(
            batches,
            data,
            model=model if labelled else None,
            config=data_config(model),
            batch_size=batch_size,
            limit=limit,
            seed=seed,
            device=place,
        )
        stream = share(rank=distributed.rank(), world=distributed.world_size())
        if labelled:
            _compare_classes(model, data)
        first, rest = _first(stream if len(stream) else share(), keep=bool(len(stream)))
        parts = _anatomy(model, first[0]) if any(exam.needs_maps for exam in exams) else None
        units = tuple(UnitRow.of(unit) for unit in parts.mapped) if parts is not None else ()
        subject = Subject(name or name_of(model), data_name(data), units, seed)
        accumulators = [exam(subject) for exam in exams]
        with _progress(stream.n_images, accumulators) as advance:
            _pass(model, parts, rest, accumulators, advance)
        return {a.result.exam: a.finish() for a in accumulators}


def _first(stream: Iterable[Images], keep: bool) -> tuple[Images, Iterable[Images]]:
    """The first batch, and all that are to be examined; data that can be read only once is read only once."""
    iterator = iter(stream)
    first = next(iterator)
    return first, chain([first], iterator) if keep else ()


def _anatomy(model: nn.Module, images: Tensor) -> Anatomy:
    parts = anatomy(model, tuple(images.shape[1:]))
    if not parts.mapped:
        kind = type(model).__name__
        raise UnsupportedModel(
            f"{kind} has no unit with a feature map; try: --exams prediction, which needs none"
        )
    return parts


def _pass(
    model: nn.Module,
    parts: Anatomy | None,
    stream: Iterable[Images],
    accumulators: Sequence[Accumulator],
    advance: Callable[[int], Any],
) -> None:
    """Show the model every batch and let every accumulator take it in."""
    seen: dict[str, list[Tensor]] = {a.result.exam: [] for a in accumulators}
    measures = {a.result.exam: a.measure for a in accumulators if a.needs_maps}
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)

    def measure(unit: Unit, feature: Tensor) -> None:
        for exam, numbers in _measured(feature, measures).items():
            seen[exam].append(numbers)

    tap = nullcontext() if parts is None else Tap(model, parts, parts.mapped, on_feature=measure)
    with tap:
        for images, labels, indices in stream:
            with torch.inference_mode():
                logits = _logits(model(images.to(dtype)))
            for accumulator in accumulators:
                values = tuple(seen[accumulator.result.exam])
                accumulator.update(Batch(logits, labels, indices, values))
            for numbers in seen.values():
                numbers.clear()
            advance(len(labels))


def _measured(feature: Tensor, measures: Mapping[str, Callable[[Tensor], Tensor]]) -> dict[str, Tensor]:
    """What every exam measures on one map, piece by piece so that a piece is in the cache for all of them."""
    size = max(1, CHUNK // feature[0].numel()) if feature.device.type == "cpu" else len(feature)
    found: dict[str, list[Tensor]] = {exam: [] for exam in measures}
    for piece in feature.split(size):
        for exam, measure in measures.items():
            found[exam].append(measure(piece))
    return {exam: torch.cat(numbers) for exam, numbers in found.items()}


def _logits(output: Any) -> Tensor:
    """The class scores in whatever a model puts out: a tensor, a Hugging Face output, a tuple or a dict."""
    if isinstance(output, Tensor):
        return output
    found = getattr(output, "logits", None)
    if found is None and isinstance(output, dict):
        found = output.get("logits", output.get("out"))
    if found is None and isinstance(output, (tuple, list)) and output:
        found = output[0]
    if not isinstance(found, Tensor):
        raise VitscopeError(
            f"the model puts out a {type(output).__name__}; expected a tensor of class scores"
        )
    return found


def _compare_classes(model: nn.Module, data: Any) -> None:
    outputs, classes = class_count(model), getattr(data, "classes", None)
    if outputs is not None and classes is not None and outputs != len(classes):
        warnings.warn(
            f"the model has {outputs} outputs, the data {len(classes)} classes: accuracy and calibration "
            "mean something only if label k is output k",
            stacklevel=3,
        )


@contextmanager
def _placed(model: nn.Module, device: str | torch.device | None) -> Iterator[torch.device]:
    """The model on `device`, and back where it was afterwards."""
    home = next((p.device for p in model.parameters()), torch.device("cpu"))
    try:
        place = home if device is None else torch.device(device)
        model.to(place)
    except (RuntimeError, AssertionError) as error:
        raise VitscopeError(f"cannot use device '{device}' ({error}); try: --device cpu") from error
    try:
        yield place
    finally:
        model.to(home)


@contextmanager
def _progress(n_images: int, accumulators: Sequence[Accumulator]) -> Iterator[Callable[[int], Any]]:
    """A bar with an estimate, once there is something to wait for; in a log file a line now and then."""
    what = ", ".join(a.result.exam for a in accumulators)
    with tqdm(
        total=n_images,
        desc=f"{accumulators[0].subject.model}: {what}",
        unit="image",
        delay=1.0,
        mininterval=0.2 if sys.stderr.isatty() else 30.0,
        leave=False,
        disable=not distributed.is_main(),
    ) as bar:
        yield bar.update
