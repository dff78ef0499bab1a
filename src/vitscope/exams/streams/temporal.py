"""Temporal smoothing on streams: does averaging over the last frames make predictions better and steadier?

    p_t = sum_{a=0..min(K, t)} w_a q_{t-a},    w_a = exp(-rate a) / sum_b exp(-rate b)

q_t is the prediction of frame t alone. Both are scored on the same frames; `frame_scores` defines consistency and the
bootstrap over blocks of frames. Throughput is that of frames coming one by one, relative to one pass of the model.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy import preserved
from vitscope.core import distributed
from vitscope.core.arguments import CountFromZero, NotNegative, Probability
from vitscope.core.progress import progress
from vitscope.core.tensors import dtype_of
from vitscope.data import data_config
from vitscope.data.fetchers import ImageFetcher
from vitscope.data.frames import FrameData, pieces
from vitscope.engine.choose_exams import require_frames
from vitscope.engine.exam import procedure
from vitscope.engine.facts import data_name
from vitscope.engine.frame_scores import FrameScores, blocks_of
from vitscope.engine.own_passes import compare_classes, placed
from vitscope.engine.pass_scores import Stopwatch
from vitscope.engine.random_passes import RandomPasses, random_network, without_grafts
from vitscope.engine.resuming import PartialResults, ResumablePass
from vitscope.engine.sequence_scorer import SequenceScorer, predictors
from vitscope.engine.takes_interface import Asked
from vitscope.findings.temporal import TemporalResult
from vitscope.models import name_of
from vitscope.surgery.temporal import TemporalSmoothing

TIMED = 30  # frames on which throughput is measured
TRACED = 200  # frames of the first sequence that a figure shows
MOST_NUMBERS = 1 << 25  # of the predictions of frames that are looked at together


@procedure(TemporalResult, evaluation=True, resumable=True, needs_frames=True)
def temporal(
    model: nn.Module,
    data: Any,
    request: Asked,
    rate: NotNegative = 0.8,
    previous: CountFromZero = 5,
    passes: CountFromZero = 0,
    p: Probability = 0.3,
    smooth: bool = False,
    block: CountFromZero | None = None,
    parts: PartialResults | None = None,
) -> TemporalResult:
    """Score `model`'s predictions on a stream of frames, alone and smoothed over time.

    Under torchrun every process takes whole sequences. `examine` documents the other arguments.

    Args:
        model: Puts out (N, classes), or (N, classes, H, W) for frames with masks. One that smooths over time already
            is compared with itself without that; its own rate and memory are used.
        data: A stream: what `load_data("frames:PATH")`, `load_data("coral-stream")`, `load_data("camvid-frames:PATH")`
            or `moving_crops` gives.
        limit: Use at most this many frames, the first ones of each sequence.
        batch_size: Frames of a sequence per forward pass.
        rate: A frame of age a weighs exp(-rate a).
        previous: Frames before the current one that take part.
        passes: Compare with MC dropout of this many passes per frame, and with one random pass per frame.
        p: Of MC dropout that is put into a copy of a model without any.
        smooth: Score all of it with spatial smoothing (`vs.surgery.smooth`) in a copy, too.
        block: Frames of a block of the bootstrap; 0: whole sequences; default: these if there are 20, else 25 frames.
    """
    seed = request.seed
    data = require_frames(data)
    common: dict[str, Any] = {"model": request.name or name_of(model), "data": data_name(data), "seed": seed}
    model, own_smoothing = without_grafts(model, TemporalSmoothing)
    if own_smoothing is not None:
        rate, previous = own_smoothing.rate, own_smoothing.previous
    sequences = data.starts(request.limit)
    blocks, block_size = blocks_of([len(sequence) for sequence in sequences], block)
    n_blocks = int(blocks[-1][-1]) + 1
    config = data_config(model)
    with preserved(model), placed(model, request.device) as place:
        compare_classes(model, data)
        network = random_network(model, None, _noise(model, place, seed), p, seed) if passes else None
        size = config.input_size[1:] if data.masks is not None else None
        source = RandomPasses(model, network, seed)
        ways = predictors(source, passes, partial(_fit, size=size), config.input_size if smooth else None)
        scores = FrameScores(2 * len(ways), min(TRACED, len(sequences[0])), n_blocks, seed)
        resumable, watch = ResumablePass(parts, request.batch_size), Stopwatch(place)
        resumable.restore({"temporal": scores})
        scorer = SequenceScorer(ways, rate, previous, scores)
        mine = list(distributed.shard(len(sequences)))[resumable.done :]
        stream = _Stream(data, [sequences[number] for number in mine], model, place, request.batch_size)
        with resumable, progress(stream.frames, f"{common['model']}: temporal") as advance:
            for number, sequence in zip(mine, stream, strict=True):
                scorer.begin(traced=number == 0)
                with torch.inference_mode():
                    for places, frames, labels in sequence:
                        if scores.timed < TIMED:
                            scorer.time(frames[: 1 + TIMED - int(scores.timed)], places[0], watch)
                        start = places[0] - sequences[number][0]
                        scorer.take(frames, labels, places[0], blocks[number][start : start + len(places)])
                        advance(len(places))
                resumable.keep({"temporal": scores})
        found = scores.finish()
    return TemporalResult(
        **common,
        **found,
        why="",
        sequences=len(sequences),
        blocks=n_blocks,
        block=block_size,
        rate=float(rate),
        previous=previous,
        passes=passes,
        source=source.source,
        clock=watch.clock,
        way=tuple(way.name for way in ways for _ in range(2)),
        spatial=np.repeat([way.spatial for way in ways], 2),
        temporal=np.array([False, True] * len(ways)),
    )


class _Stream:
    """The frames of some sequences as the model takes them, in pieces of one sequence each.

    Frames are decoded ahead over the ends of sequences.
    """

    def __init__(
        self,
        data: FrameData,
        sequences: Sequence[range],
        model: nn.Module,
        device: torch.device,
        batch_size: int,
    ) -> None:
        self._data, self._config = data, data_config(model)
        self._dtype = dtype_of(model)
        points = self._config.input_size[1] * self._config.input_size[2] if data.masks is not None else 1
        at_once = max(1, min(batch_size, MOST_NUMBERS // (points * len(data.classes))))
        self._pieces = [list(pieces(sequence, at_once)) for sequence in sequences]
        self.frames = sum(map(len, sequences))
        fetcher = ImageFetcher(data, self._config, device)
        self._fetched = fetcher.fetch_all([np.array(piece) for own in self._pieces for piece in own])

    def __iter__(self) -> Iterator[Iterator[tuple[range, Tensor, Tensor]]]:
        for own in self._pieces:
            yield self._sequence(own)

    def _sequence(self, own: list[range]) -> Iterator[tuple[range, Tensor, Tensor]]:
        for places in own:
            frames, labels = next(self._fetched)
            if self._data.masks is not None:
                labels = self._data.prepared_masks(places, self._config)
            yield places, frames.to(self._dtype), labels.cpu()


def _fit(logits: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Logits of maps at the size of the masks, as segmentation models are scored; others as they are."""
    if size is None or logits.dim() != 4 or tuple(logits.shape[2:]) == size:
        return logits
    return F.interpolate(logits, size, mode="bilinear", align_corners=False)


def _noise(model: nn.Module, device: torch.device, seed: int) -> Tensor:
    """A few images on which a model shows whether its passes differ."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, *data_config(model).input_size, generator=generator).to(device, dtype_of(model))
