"""The passes of the corruption exam, one over clean images and one over each corruption of them, and their scores.

Means over corruptions are formed replicate by replicate, so that their intervals are those of the mean over the same
images. With E_k the mean error over severities of type k, E the error on clean images, and R those of a reference,

    mCE = mean over k of E_k / R_k        relative mCE = mean over k of (E_k - E) / (R_k - R)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.data.corruptions import FAMILIES
from vitscope.data.corruptions.cache import (
    Cache,
    CleanImages,
    CleanImagesWriter,
    Condition,
    cache_folder,
    scratch_folder,
)
from vitscope.data.corruptions.generate import corrupted, corrupting_explained
from vitscope.data.corruptions.published import Published
from vitscope.data.preprocessing import normalise
from vitscope.engine.condition_scores import Part, Scores, condition_scores
from vitscope.engine.conditions import Scored
from vitscope.engine.not_finite import scored_outputs
from vitscope.engine.own_passes import OwnPasses
from vitscope.engine.pixels import PixelSpace, pixel_space
from vitscope.engine.resuming import PartialResults
from vitscope.findings.corruption import ALL, CLEAN, Row
from vitscope.results.condition_rows import QUANTITIES, Headline

_ACCURACY = QUANTITIES.index("accuracy")
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
    parts: PartialResults

    def generated(self, cache: bool | None, workers: int | None) -> Found:
        """Scores on clean images and on those that are corrupted here, by name.

        `cache` says whether corrupted images are kept; default: if they take less than `MOST_KEPT`.
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

            with corrupting_explained():
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

    def _clean(self, space: PixelSpace, folder: Path | None) -> tuple[Found, list[Condition], CleanImages]:
        """What is finished, what is left, and the images; they are written into the folder if there is one."""
        found = self.parts.finished([CLEAN, *(part_name(*condition) for condition in self.conditions)])
        todo = [condition for condition in self.conditions if part_name(*condition) not in found]
        writer = CleanImagesWriter(folder / CLEAN if folder is not None else None, self.batch_size)
        scores = condition_scores(self.own)
        with self.own.progress("corruption: clean images") as advance:
            for images, labels, indices in self.own.stream:
                pixels = space.to_pixels(images)
                writer.add((255 * pixels).round().clamp(0, 255).to(torch.uint8), labels, indices)
                if CLEAN not in found:
                    self._score(scores, images, labels, indices)
                advance(len(labels))
        return self._keep(found, CLEAN, scores), todo, writer.finish()

    def _corrupted(
        self,
        share: CleanImages,
        todo: Sequence[Condition],
        batches: Iterator[tuple[Condition, Iterator[Tensor]]],
    ) -> Found:
        found: Found = {}
        labels, indices = torch.from_numpy(share.labels), torch.from_numpy(share.indices)
        with self.own.progress("corruption", len(share) * len(todo)) as advance:
            for condition, images in batches:
                scores = condition_scores(self.own)
                for rows, batch in zip(share.batches, images, strict=True):
                    self._score(scores, batch, labels[rows], indices[rows])
                    advance(len(batch))
                found = self._keep(found, part_name(*condition), scores)
        return found

    def _score(self, scores: Scores, images: Tensor, labels: Tensor, indices: Tensor) -> None:
        with torch.inference_mode():
            shown = images.to(self.own.dtype)
            said = scored_outputs(self.model, shown, self.own.shown(shown, indices))
        said = said if isinstance(said, list) else said.cpu()  # of a detector, what it has found
        scores.update(*self.own.readout(said, labels.cpu(), indices.cpu()), indices)

    def _keep(self, found: Found, name: str, scores: Scores) -> Found:
        """With the scores of all processes under a name, unless there are some; the main process keeps them."""
        if name in found:
            return found
        whole = scores.finish()
        if distributed.is_main():
            self.parts.put(name, whole)
        return {**found, name: whole}


def part_name(kind: str, severity: int) -> str:
    """What the partial result of a corruption at one severity is called."""
    return Row(kind, severity).condition


def rows_of(types: Sequence[str], severities: Sequence[int]) -> tuple[Row, ...]:
    """Clean images first, then from the most general to single types and severities."""
    families = [family for family, kinds in FAMILIES.items() if set(kinds) & set(types)]
    names = [ALL, *families, *types]
    return Row(CLEAN), *(Row(name, severity) for name in names for severity in (0, *severities))


class Replicates(Scored):
    """Every row's quantities, plain and in every bootstrap replicate: (rows, 1 + replicates, quantities)."""

    def __init__(self, found: Mapping[str, Part], types: Sequence[str], severities: Sequence[int]) -> None:
        self.rows = rows_of(types, severities)
        super().__init__([_members(row, found, types, severities) for row in self.rows], found[CLEAN])

    def of(self, row: Row) -> np.ndarray:
        """(1 + replicates, quantities)."""
        found: np.ndarray = self.drawn[self.rows.index(row)]
        return found

    def headlines(self, images: str) -> list[Headline]:
        """Means over all corruptions, and the accuracy (of pixels also the mIoU, of objects the AP) of each family."""
        every, whole = f"{images} corruptions", self.rows.index(Row(ALL))
        drop = Headline.of_drop(every, self.drops[whole], self.n)
        first = [self.headline(quantity, every, whole) for quantity in self.main]
        objects = "accuracy" not in self.main
        more = [] if objects else [self.headline(quantity, every, whole) for quantity in ("nll", "ece")]
        families = [row for row in self.rows if row.corruption in FAMILIES and not row.severity]
        return [*first, drop, *more] + [
            self.headline(quantity, f"{images} {row.corruption}", self.rows.index(row))
            for row in families
            for quantity in self.main
        ]

    def against(
        self, types: Sequence[str], reference: str, errors: np.ndarray, clean: float
    ) -> list[Headline]:
        """Both mean corruption errors; the relative one only if every type costs the reference some accuracy.

        `errors` (types,) and `clean` are those of the reference; its own uncertainty is not counted.
        """
        own = np.stack([1 - self.of(Row(kind))[:, _ACCURACY] for kind in types])
        own_clean = 1 - self.of(Row(CLEAN))[:, _ACCURACY]
        if (errors <= 0).any():
            raise VitscopeError(
                f"{reference} makes no mistakes under {types[int(np.argmin(errors))]}, so no error can be relative to "
                "it; take another reference model, or more images"
            )
        found = {"mce": own / errors[:, None]}
        if (errors > clean).all():
            found["relative_mce"] = (own - own_clean) / (errors - clean)[:, None]
        return [Headline.of(name, f"against {reference}", drawn.mean(0)) for name, drawn in found.items()]


def _members(
    row: Row, found: Mapping[str, Part], types: Sequence[str], severities: Sequence[int]
) -> list[Part]:
    """The conditions that a row is the mean of."""
    if row.corruption == CLEAN:
        return [found[CLEAN]]
    kinds = types if row.corruption == ALL else FAMILIES.get(row.corruption, (row.corruption,))
    chosen = [row.severity] if row.severity else severities
    return [found[part_name(kind, s)] for kind in types if kind in kinds for s in chosen]
