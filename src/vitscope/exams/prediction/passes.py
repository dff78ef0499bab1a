"""How much several passes help: MC dropout or an ensemble, averaged over 1, 2, 5, 10 ... of them.

    p = 1/T sum_t p_t        T passes; probabilities are averaged, never logits

`pass_scores` defines what is measured of p, and what it costs. One pass is computed at a time and added to
the average; nothing else is kept of it.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.arguments import Count, Probability
from vitscope.core.errors import VitscopeError
from vitscope.core.interface import asked_output, declared, interface_of
from vitscope.data import Readout
from vitscope.engine.condition_scores import score_columns
from vitscope.engine.exam import procedure
from vitscope.engine.own_passes import own_passes
from vitscope.engine.pass_scores import PassScores, RunningMean, Stopwatch
from vitscope.engine.random_passes import Members, PassSource, RandomPasses, random_network
from vitscope.engine.resuming import PartialResults
from vitscope.engine.scores import check_predictions
from vitscope.engine.takes_interface import Asked
from vitscope.findings.passes import PassesResult
from vitscope.surgery import deep_ensemble
from vitscope.surgery.ensemble import DeepEnsemble

FEW = 4  # noise images on which a model shows whether its passes differ


@procedure(PassesResult, evaluation=True, resumable=True, needs_labels=True)
def passes(
    model: nn.Module | Sequence[nn.Module],
    data: Any,
    request: Asked,
    passes: Sequence[Count] = (1, 2, 5, 10),
    p: Probability = 0.3,
    smooth: bool = False,
    parts: PartialResults | None = None,
) -> PassesResult:
    """Score the average over several passes of `model` against their number.

    `examine` documents the arguments before `passes`.

    Args:
        model: With dropout of any kind, or without: then MC dropout is put into a copy. Several models, or what
            `vs.surgery.deep_ensemble` makes of them: their number takes the place of the passes.
        passes: After how many to score the average.
        p: Of MC dropout that is put in.
        smooth: Score the same with spatial smoothing (`vs.surgery.smooth`) in a copy, too.
    """
    counts = sorted(set(passes))
    if not counts:
        raise VitscopeError("passes is empty; expected numbers from 1 on, such as 1 2 5 10 50")
    if not isinstance(model, nn.Module):
        model = deep_ensemble(list(model))
    with (
        own_passes(model, data, request, labelled=True, parts=parts) as own,
        _asked_of_members(model),
    ):
        plain: PassSource
        if isinstance(model, DeepEnsemble):
            plain = Members(list(model.members), interface_of(model).output)
        else:
            plain = RandomPasses(
                model, random_network(model, None, own.noise(FEW), p, request.seed), request.seed
            )
        if plain.most is not None:
            counts = sorted({*(count for count in counts if count <= plain.most), plain.most} - {0})
        smoothed = plain.smoothed(own.anatomy.input_shape) if smooth else None
        sources = [plain] if smoothed is None else [plain, smoothed]
        watch = Stopwatch(own.device)
        each = [0, *counts] if plain.deterministic else counts
        scores = PassScores(len(each) * len(sources), request.seed)
        measure = _Measure(sources, counts, watch, own.readout)

        def take(images: Tensor, labels: Tensor, indices: Tensor) -> None:
            columns, seconds = measure(images.to(own.dtype), labels, indices)
            scores.update(columns, indices, seconds)

        own.accumulate("passes", {"passes": scores}, take)
        found = scores.finish()
        found["drawn"] = found["drawn"][len(each) - 1].T.copy()
        return PassesResult(
            **own.common,
            **found,
            source=plain.source,
            inserted=plain.p is not None,
            p=float("nan") if plain.p is None else plain.p,
            clock=watch.clock,
            passes=np.array(each * len(sources), dtype=np.int64),
            smoothed=np.repeat([False, True][: len(sources)], len(each)),
        )


@contextmanager
def _asked_of_members(model: nn.Module) -> Iterator[None]:
    """The output that is asked of an ensemble is asked of its members, which are shown the images one by one."""
    with ExitStack() as asked:
        for member in model.members if isinstance(model, DeepEnsemble) else ():
            asked.enter_context(declared(member, asked_output(model)))
        yield


class _Measure:
    """From images to what every condition adds to the sums: of each source the deterministic model, then each count."""

    def __init__(
        self, sources: Sequence[PassSource], counts: Sequence[int], watch: Stopwatch, reading: Readout
    ) -> None:
        self._sources, self._counts, self._watch, self._reading = sources, counts, watch, reading
        self._warm = False

    @torch.inference_mode()
    def __call__(self, images: Tensor, labels: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        """(N, conditions, columns), and the seconds of each condition."""
        if not self._warm:
            self._warm_up(images)
        columns, seconds = [], []
        for source in self._sources:
            with closing(self._averages(source, images, int(indices[0]))) as averages:
                for mean, time in averages:
                    columns.append(self._columns(mean, labels.cpu(), indices.cpu()))
                    seconds.append(time)
        return torch.stack(columns, 1), torch.tensor(seconds, dtype=torch.float64)

    def _averages(
        self, source: PassSource, images: Tensor, first_image: int
    ) -> Generator[tuple[RunningMean, float]]:
        if source.deterministic:
            mean = RunningMean()
            with self._watch.from_zero():
                mean.add(source.single(images))
            yield mean, self._watch.seconds
        mean = RunningMean()
        self._watch.seconds = 0.0
        with closing(source.passes(images, first_image, max(self._counts, default=0))) as drawn:
            for count in self._counts:
                with self._watch.running():
                    for logits in islice(drawn, count - mean.passes):
                        mean.add(logits)
                yield mean, self._watch.seconds

    def _columns(self, mean: RunningMean, labels: Tensor, indices: Tensor) -> Tensor:
        logits = mean.log_mean()
        check_predictions(logits, labels, indices)
        return torch.cat([score_columns(*self._reading(logits, labels, indices)), mean.spreads()], 1)

    def _warm_up(self, images: Tensor) -> None:
        """A first pass of this size takes longer, which no throughput should count."""
        for source in self._sources:
            if source.deterministic:
                source.single(images)
            for _ in source.passes(images, 0, 1):
                pass
        self._warm = True
