"""One pass over the data for any number of exams: maps and attention are tapped once and handed to all of them."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, AttentionMap, Tap, Unit
from vitscope.anatomy.taps.capture import Stream
from vitscope.anatomy.watch.example import runs_on
from vitscope.core import distributed
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.core.tensors import checksum
from vitscope.data import data_config
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.moments import centred_once
from vitscope.engine.not_finite import finite_scores_in, require_finite_features, require_finite_weights
from vitscope.engine.own_passes import OwnPasses, own_passes
from vitscope.engine.resuming import PartialResults, ResumablePass
from vitscope.engine.takes_interface import Asked, takes_interface
from vitscope.engine.task_inputs import require_task
from vitscope.results import Result, UnitRow

CHUNK = 1 << 19  # numbers of a map measured at once on a CPU: few enough to stay in its cache


@takes_interface
def examine(
    model: nn.Module,
    data: Any,
    exams: Sequence[type[Accumulator]],
    request: Asked,
    parts: PartialResults | None = None,
    stream: Stream = "read",
) -> dict[str, Result]:
    """Run `exams` in one pass and return their results by exam name.

    The model is in evaluation mode inside and left as it was found. Under torchrun each process takes its
    share of the batches, and all return the same results.

    Args:
        model: Any vision model that anatomy understands.
        data: What `load_data` gives, a Dataset, a DataLoader, or a pair of tensors (images, labels); for segmentation
            a pair, or a DataLoader, of (images, masks).
        exams: Accumulator types.
        limit: Use a seeded, class-stratified subset of this many images.
        batch_size: Images per forward pass.
        seed: Of the subset, the order and the bootstrap.
        device: Where to run; default: where the model is.
        name: What to call the model in the results.
        parts: Where to keep what an interrupted pass has collected, and to find it again.
        stream: Which map after a unit is measured: what the next unit reads, or the "sum" before an activation that
            follows the unit's addition directly.
    """
    for exam in exams:
        exam.check_batch_size(request.batch_size)
    labelled = any(exam.needs_labels for exam in exams)
    for exam in exams:
        if exam.task:
            require_task(data, model, exam.task, exam.result.exam)
        if exam.task == "detection":  # what is not finite would be left out, as if nothing were there
            require_finite_weights(model)
    scored = any(exam.task for exam in exams)
    with own_passes(model, data, request, labelled, parts, scored=scored) as own:
        body = None
        if any(exam.needs_maps for exam in exams):
            body = own.mapped_anatomy
        elif any(exam.needs_attention for exam in exams):
            body = own.anatomy
        units = () if body is None else tuple(UnitRow.of(unit, stream) for unit in body.mapped)
        attending = () if body is None else tuple(unit for unit in body if unit.attention is not None)
        subject = Subject(
            **own.common,
            units=units,
            attending=attending,
            readout=own.readout,
            pictures=own.pictures,
            config=data_config(model),
            score=partial(_score, own),
        )
        accumulators = {exam.result.exam: exam(subject) for exam in exams}
        own.resumable.restore(accumulators)
        with own.progress(", ".join(accumulators)) as advance:
            shown = _Shown(own, body, list(accumulators.values()), stream)
            _pass(shown, accumulators, advance, own.resumable)
        return {name: accumulator.finish() for name, accumulator in accumulators.items()}


def _pass(
    shown: "_Shown",
    accumulators: Mapping[str, Accumulator],
    advance: Callable[[int], Any],
    resumable: ResumablePass,
) -> None:
    """Show the model every batch and let every accumulator take it in; signals wait until all have."""
    with Interruptible(patient=distributed.is_active()) as interrupt, closing(shown.batches()) as batches:
        try:
            while True:
                with interrupt.at_once():
                    batch = next(batches, None)
                if batch is None:
                    break
                for name, accumulator in accumulators.items():
                    accumulator.update(batch[name])
                del batch  # before the next one is made
                advance(shown.n_images)
                resumable.count(accumulators)
        except Stopped:
            resumable.save(accumulators)
            raise
        resumable.save(accumulators)  # what follows may be interrupted, too
        interrupt.check()


def _score(own: OwnPasses, images: Tensor) -> Tensor:
    """Class scores of images that are not those of the pass."""
    shown = images.to(own.device, own.dtype)
    with torch.inference_mode():
        scores = finite_scores_in(own.model, own.model(shown), shown, needed=True)
    assert scores is not None  # they were needed
    return scores


class _Shown:
    """Shows the model one batch after the other; what its taps give is measured for every exam."""

    def __init__(
        self, own: OwnPasses, parts: Anatomy | None, accumulators: Sequence[Accumulator], stream: Stream
    ) -> None:
        self.n_images = 0  # of the batch
        self._own, self._parts, self._stream = own, parts, stream
        self._scored = any(a.needs_labels or a.task in ("segmentation", "vqa") for a in accumulators)
        self._pieces = {a.result.exam: a.measure for a in accumulators if a.needs_maps and not a.whole_maps}
        self._wholes = {a.result.exam: a.measure for a in accumulators if a.needs_maps and a.whole_maps}
        self._attentive = {a.result.exam: a.measure_attention for a in accumulators if a.needs_attention}
        self._attending = [unit.name for unit in parts or () if unit.attention is not None]
        self._exams = [a.result.exam for a in accumulators]
        self._clear()

    def batches(self) -> Generator[dict[str, Batch]]:
        """Every batch, as each exam sees it."""
        model, tap = self._own.model, self._tap()
        for images, labels, indices in self._own.stream:
            self._clear()
            self.n_images = len(labels)
            shown = images.to(self._own.dtype)
            given = self._own.shown(shown, indices)
            # where there is a tap, anatomy has seen the model run
            with torch.inference_mode(), tap or runs_on(model, shown):
                output = model(given)
            scores = finite_scores_in(model, output, shown, needed=self._scored)
            if self._parts is not None:
                require_finite_features(self._checksums, model, shown, self._parts)
            logits = torch.empty(0) if scores is None else scores
            yield {
                exam: Batch(
                    logits,
                    labels,
                    indices,
                    tuple(self._values[exam]),
                    self._attention_of(exam),
                    images,
                    output,
                )
                for exam in self._exams
            }

    def _tap(self) -> Tap | None:
        if self._parts is None:
            return None
        maps, attention = bool(self._pieces or self._wholes), bool(self._attentive)
        return Tap(
            self._own.model,
            self._parts,
            [*(self._parts.mapped if maps else ()), *(self._attending if attention else ())],
            on_feature=self._on_feature if maps else None,
            on_attention=self._on_attention if attention else None,
            explicit_attention=attention,  # the weights are there already: a fused kernel would make them again
            stream=self._stream,
        )

    def _clear(self) -> None:
        self._checksums: list[Tensor] = []
        self._values: dict[str, list[Tensor]] = {exam: [] for exam in self._exams}
        self._attention: dict[tuple[str, str], list[Tensor]] = {}  # by exam and unit

    def _attention_of(self, exam: str) -> tuple[tuple[Tensor, ...], ...]:
        return tuple(tuple(self._attention.get((exam, unit), ())) for unit in self._attending)

    def _on_feature(self, unit: Unit, feature: Tensor) -> None:
        if unit.kind == "head":  # of its own kind of map, and not a feature
            return
        self._checksums.append(checksum(feature))
        for exam, numbers in _measured(feature, self._pieces).items():
            self._values[exam].append(numbers)
        for exam, measure in self._wholes.items():
            self._values[exam].append(measure(feature))

    def _on_attention(self, unit: Unit, seen: AttentionMap) -> None:
        self._checksums.append(checksum(seen.output))
        for exam, measure in self._attentive.items():
            self._attention.setdefault((exam, unit.name), []).append(measure(unit, seen, self.n_images))


def _measured(feature: Tensor, measures: Mapping[str, Callable[[Tensor], Tensor]]) -> dict[str, Tensor]:
    """What every exam measures on one map, piece by piece so that a piece is in the cache for all of them."""
    size = max(1, CHUNK // feature[0].numel()) if feature.device.type == "cpu" else len(feature)
    found: dict[str, list[Tensor]] = {exam: [] for exam in measures}
    for piece in feature.split(size):
        with centred_once():
            for exam, measure in measures.items():
                found[exam].append(measure(piece))
    return {exam: torch.cat(numbers) for exam, numbers in found.items()}
