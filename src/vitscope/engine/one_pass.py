"""One pass over the data for any number of exams: maps and attention are tapped once and handed to all of them."""

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from vitscope.anatomy import Anatomy, AttentionMap, Tap, Unit, anatomy, preserved
from vitscope.anatomy.taps.cannot_run import runs_on
from vitscope.anatomy.taps.capture import Stream
from vitscope.core import distributed
from vitscope.core.errors import UnsupportedModel, VitscopeError, warn
from vitscope.core.finite import checksum
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.core.memory import kept_memory
from vitscope.data import batches, class_count, data_config, readout
from vitscope.data.fetchers import require_labels
from vitscope.engine.cache_key import data_name, images_digest
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.features.moments import centred_once
from vitscope.engine.not_finite import finite_scores_in, require_finite_features
from vitscope.engine.partial_pass import Partial
from vitscope.engine.takes_interface import takes_interface
from vitscope.models import name_of
from vitscope.results import Result, UnitRow

CHUNK = 1 << 19  # numbers of a map measured at once on a CPU: few enough to stay in its cache

Images = tuple[Tensor, Tensor, Tensor]  # images, labels, indices


@takes_interface
def examine(
    model: nn.Module,
    data: Any,
    exams: Sequence[type[Accumulator]],
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    partial_pass: Partial | None = None,
    stream: Stream = "read",
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
        partial_pass: Where to keep what an interrupted pass has collected, and to find it again.
        stream: Which map after a unit is measured: what the next unit reads, or the "sum" before an activation that
            follows the unit's addition directly.
    """
    for exam in exams:
        exam.check_batch_size(batch_size)
    partial_pass = partial_pass or Partial(None, {}, batch_size)
    with preserved(model), placed(model, device) as place:
        torch.manual_seed(seed)
        labelled = any(exam.needs_labels for exam in exams)
        if labelled:
            require_labels(data)
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
        done = partial_pass.batches_done()
        mine = share(rank=distributed.rank(), world=distributed.world_size(), skip=done)
        if labelled:
            compare_classes(model, data)
        first, rest = first_batch(mine if len(mine) else share(), keep=bool(len(mine)))
        parts = _anatomy(model, exams, first[0])
        subject = _subject(name or name_of(model), data, parts, seed, stream)
        accumulators = [exam(subject) for exam in exams]
        if done:
            partial_pass.load(accumulators)
        with progress(mine.n_images, _heading(accumulators)) as advance:
            _pass(model, parts, rest, accumulators, advance, partial_pass, done, stream)
        return {a.result.exam: a.finish() for a in accumulators}


def first_batch(stream: Iterable[Images], keep: bool) -> tuple[Images, Iterable[Images]]:
    """The first batch, and all that are to be examined; data that can be read only once is read only once."""
    iterator = iter(stream)
    first = next(iterator)
    return first, chain([first], iterator) if keep else ()


def _anatomy(model: nn.Module, exams: Sequence[type[Accumulator]], images: Tensor) -> Anatomy | None:
    """The model's units on images of this size, if any exam looks inside."""
    if not any(exam.needs_maps or exam.needs_attention for exam in exams):
        return None
    parts = anatomy(model, tuple(images.shape[1:]))
    if any(exam.needs_maps for exam in exams):
        require_maps(parts)
    return parts


def require_maps(parts: Anatomy) -> None:
    """Refuse a model in which there is nothing to measure."""
    if not parts.mapped:
        raise UnsupportedModel(
            f"{parts.model_name} has no unit with a feature map; try: --exams prediction, which needs none"
        )


def _subject(model: str, data: Any, parts: Anatomy | None, seed: int, stream: Stream) -> Subject:
    units = () if parts is None else tuple(UnitRow.of(unit, stream) for unit in parts.mapped)
    attending = () if parts is None else tuple(unit for unit in parts if unit.attention is not None)
    return Subject(model, data_name(data), units, seed, attending, readout(data), images_digest(data))


class _Seen:
    """What the taps of one batch gave to every exam."""

    def __init__(self, parts: Anatomy, accumulators: Sequence[Accumulator]) -> None:
        self.n_images = 0
        self.values: dict[str, list[Tensor]] = {a.result.exam: [] for a in accumulators}
        self.checksums: list[Tensor] = []
        self._attending = [unit.name for unit in parts if unit.attention is not None]
        self._attention: dict[str, dict[str, list[Tensor]]] = {
            a.result.exam: {name: [] for name in self._attending} for a in accumulators
        }
        self._pieces = {a.result.exam: a.measure for a in accumulators if a.needs_maps and not a.whole_maps}
        self._wholes = {a.result.exam: a.measure for a in accumulators if a.needs_maps and a.whole_maps}
        self._attentive = {a.result.exam: a.measure_attention for a in accumulators if a.needs_attention}

    def tap(self, model: nn.Module, parts: Anatomy, stream: Stream) -> Tap:
        """A tap that measures what the exams want."""
        maps, attention = bool(self._pieces or self._wholes), bool(self._attentive)
        return Tap(
            model,
            parts,
            [*(parts.mapped if maps else ()), *(self._attending if attention else ())],
            on_feature=self._on_feature if maps else None,
            on_attention=self._on_attention if attention else None,
            explicit_attention=attention,  # the weights are there already: a fused kernel would make them again
            stream=stream,
        )

    def clear(self) -> None:
        self.checksums.clear()
        for numbers in self.values.values():
            numbers.clear()
        for units in self._attention.values():
            for found in units.values():
                found.clear()

    def attention(self, exam: str) -> tuple[tuple[Tensor, ...], ...]:
        return tuple(tuple(found) for found in self._attention[exam].values())

    def _on_feature(self, unit: Unit, feature: Tensor) -> None:
        if unit.kind == "head":  # of its own kind of map, and not a feature
            return
        self.checksums.append(checksum(feature))
        for exam, numbers in _measured(feature, self._pieces).items():
            self.values[exam].append(numbers)
        for exam, measure in self._wholes.items():
            self.values[exam].append(measure(feature))

    def _on_attention(self, unit: Unit, seen: AttentionMap) -> None:
        self.checksums.append(checksum(seen.output))
        for exam, measure in self._attentive.items():
            self._attention[exam][unit.name].append(measure(unit, seen, self.n_images))


def _pass(
    model: nn.Module,
    parts: Anatomy | None,
    mine: Iterable[Images],
    accumulators: Sequence[Accumulator],
    advance: Callable[[int], Any],
    partial_pass: Partial,
    done: int,
    stream: Stream,
) -> None:
    """Show the model every batch and let every accumulator take it in."""
    seen = None if parts is None else _Seen(parts, accumulators)
    scored = any(accumulator.needs_labels for accumulator in accumulators)
    batches = _shown(model, parts, mine, seen, scored, stream)
    with Interruptible(patient=distributed.is_active()) as interrupt, closing(batches):
        try:
            while True:
                with interrupt.at_once():
                    batch = next(batches, None)
                if batch is None:
                    break
                (images, labels, indices), logits = batch
                for accumulator in accumulators:
                    accumulator.update(_batch(accumulator, seen, logits, labels, indices, images))
                done += 1
                advance(len(labels))
                partial_pass.save(accumulators, done)
        except Stopped:
            partial_pass.save(accumulators, done, force=True)
            raise
        partial_pass.save(accumulators, done, force=True)  # what follows may be interrupted, too
        if interrupt.asked:
            raise Stopped


def _shown(
    model: nn.Module,
    parts: Anatomy | None,
    mine: Iterable[Images],
    seen: _Seen | None,
    scored: bool,
    stream: Stream,
) -> Generator[tuple[Images, Tensor]]:
    """Every batch with the model's scores; `seen` has what the taps gave until the next one is asked for."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    tap = None if seen is None or parts is None else seen.tap(model, parts, stream)
    for images, labels, indices in mine:
        if seen is not None:
            seen.clear()
            seen.n_images = len(labels)
        shown = images.to(dtype)
        # where there is a tap, anatomy has seen the model run
        with torch.inference_mode(), tap or runs_on(model, shown):
            output = model(shown)
        scores = finite_scores_in(model, output, shown, needed=scored)
        if seen is not None and parts is not None:
            require_finite_features(seen.checksums, model, shown, parts)
        yield (images, labels, indices), torch.empty(0) if scores is None else scores


def _batch(
    accumulator: Accumulator,
    seen: _Seen | None,
    logits: Tensor,
    labels: Tensor,
    indices: Tensor,
    images: Tensor,
) -> Batch:
    if seen is None:
        return Batch(logits, labels, indices, images=images)
    exam = accumulator.result.exam
    return Batch(logits, labels, indices, tuple(seen.values[exam]), seen.attention(exam), images)


def _measured(feature: Tensor, measures: Mapping[str, Callable[[Tensor], Tensor]]) -> dict[str, Tensor]:
    """What every exam measures on one map, piece by piece so that a piece is in the cache for all of them."""
    size = max(1, CHUNK // feature[0].numel()) if feature.device.type == "cpu" else len(feature)
    found: dict[str, list[Tensor]] = {exam: [] for exam in measures}
    for piece in feature.split(size):
        with centred_once():
            for exam, measure in measures.items():
                found[exam].append(measure(piece))
    return {exam: torch.cat(numbers) for exam, numbers in found.items()}


def compare_classes(model: nn.Module, data: Any) -> None:
    """Say so if labels and outputs cannot stand for the same things."""
    outputs, classes = class_count(model), getattr(data, "classes", None)
    if outputs is not None and classes is not None and outputs != len(classes):
        warn(
            f"the model has {outputs} outputs, the data {len(classes)} classes: accuracy and calibration "
            "mean something only if label k is output k"
        )


@contextmanager
def placed(model: nn.Module, device: str | torch.device | None) -> Iterator[torch.device]:
    """The model on `device`, and back where it was afterwards; on a CPU, passes reuse memory inside."""
    home = next((p.device for p in model.parameters()), torch.device("cpu"))
    try:
        place = home if device is None else torch.device(device)
        model.to(place)
    except (RuntimeError, AssertionError) as error:
        raise VitscopeError(f"cannot use device '{device}' ({error}); try: --device cpu") from error
    try:
        with kept_memory(place):
            yield place
    finally:
        model.to(home)


@contextmanager
def progress(n_images: int, heading: str) -> Iterator[Callable[[int], Any]]:
    """A bar with an estimate, once there is something to wait for; in a log file a line now and then."""
    with tqdm(
        total=n_images,
        desc=heading,
        unit="image",
        delay=1.0,
        mininterval=0.2 if sys.stderr.isatty() else 30.0,
        leave=False,
        disable=not distributed.is_main(),
    ) as bar:
        yield bar.update


def _heading(accumulators: Sequence[Accumulator]) -> str:
    return f"{accumulators[0].subject.model}: {', '.join(a.result.exam for a in accumulators)}"
