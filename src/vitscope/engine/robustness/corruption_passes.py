"""The passes of the corruption exam: one over clean images, and one over each corruption of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core import distributed
from vitscope.data.corruptions.cache import Cache, Condition, cache_folder, scratch_folder
from vitscope.data.corruptions.generate import corrupted
from vitscope.data.corruptions.published import Published
from vitscope.data.corruptions.share import Share, ShareWriter
from vitscope.data.preprocessing import normalise
from vitscope.engine.finished_parts import Parts
from vitscope.engine.not_finite import finite_scores
from vitscope.engine.own_passes import OwnPasses
from vitscope.engine.robustness.conditions import ConditionScores
from vitscope.engine.robustness.corruption_rows import part_name
from vitscope.engine.robustness.pixels import PixelSpace, pixel_space
from vitscope.findings.corruption import CLEAN

MOST_KEPT = 4 << 30  # bytes of corrupted images that are kept without being asked to

Found = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class CorruptionPasses:
    """A model that is about to be shown images in all conditions."""

    model: nn.Module
    own: OwnPasses
    conditions: Sequence[Condition]
    seed: int
    batch_size: int
    parts: Parts

    def generated(self, cache: bool | None, workers: int | None) -> Found:
        """Scores on clean images and on those that are corrupted here, by name.

        Args:
            cache: Whether corrupted images are kept; default: if they take less than `MOST_KEPT`.
            workers: See `corrupted`.

        Raises:
            UnknownNormalisation: The images came as numbers that cannot be read as pictures.
        """
        world = distributed.world_size()
        n_bytes = self.own.n_images * int(np.prod(self.own.input_shape)) * len(self.conditions) * world
        kept = distributed.broadcast(n_bytes <= MOST_KEPT) if cache is None else cache
        space = pixel_space(self.own)
        with scratch_folder(in_cache=cache is not False, needed=cache is True) as folder:
            found, todo, share = self._clean(space, folder)
            writable = folder.parent == cache_folder()

            def batches() -> Iterator[tuple[Condition, Iterator[Tensor]]]:
                store = Cache(share, self.seed, writable) if kept else None
                for condition, images in corrupted(share, todo, self.seed, store, workers):
                    yield condition, (normalise(batch, space.config, self.own.device) for batch in images)

            return found | self._corrupted(share, todo, batches())

    def published(self, source: Published) -> Found:
        """Scores on clean images and on published ones, by name."""
        space = pixel_space(self.own)
        found, todo, share = self._clean(space, None)
        pieces = [share.indices[rows] for rows in share.batches]
        batches = (
            (condition, source.batches(condition, pieces, space.config, self.own.device))
            for condition in todo
        )
        return found | self._corrupted(share, todo, batches)

    def _clean(self, space: PixelSpace, folder: Path | None) -> tuple[Found, list[Condition], Share]:
        """What is finished, what is left, and the images; they are written into the folder if there is one."""
        found = self.parts.finished([CLEAN, *(part_name(*condition) for condition in self.conditions)])
        todo = [condition for condition in self.conditions if part_name(*condition) not in found]
        writer = ShareWriter(folder / CLEAN if folder is not None else None, self.batch_size)
        scores = ConditionScores(self.seed)
        with self.own.progress("corruption: clean images") as advance:
            for images, labels, indices in self.own.stream:
                pixels = space.to_pixels(images)
                writer.add((255 * pixels).round().clamp(0, 255).to(torch.uint8), labels, indices)
                if CLEAN not in found:
                    self._score(scores, images, labels, indices)
                advance(len(labels))
        return self._keep(found, CLEAN, scores), todo, writer.finish()

    def _corrupted(
        self, share: Share, todo: Sequence[Condition], batches: Iterator[tuple[Condition, Iterator[Tensor]]]
    ) -> Found:
        found: Found = {}
        labels, indices = torch.from_numpy(share.labels), torch.from_numpy(share.indices)
        with self.own.progress("corruption", len(share) * len(todo)) as advance:
            for condition, images in batches:
                scores = ConditionScores(self.seed)
                for rows, batch in zip(share.batches, images, strict=True):
                    self._score(scores, batch, labels[rows], indices[rows])
                    advance(len(batch))
                found = self._keep(found, part_name(*condition), scores)
        return found

    def _score(self, scores: ConditionScores, images: Tensor, labels: Tensor, indices: Tensor) -> None:
        with torch.inference_mode():
            logits = finite_scores(self.model, images.to(self.own.dtype))
        scores.update(*self.own.readout(logits.cpu(), labels.cpu(), indices.cpu()), indices)

    def _keep(self, found: Found, name: str, scores: ConditionScores) -> Found:
        """With the scores of all processes under a name, unless there are some; the main process keeps them."""
        if name in found:
            return found
        whole = scores.finish()
        if distributed.is_main():
            self.parts.put(name, whole)
        return {**found, name: whole}
