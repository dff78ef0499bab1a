"""How good a class for every pixel is, and whether the model knows it.

With TP, FP and FN the pixels of all images that are rightly taken for a class, wrongly taken for it, and missed:

    IoU = TP / (TP + FP + FN)      precision = TP / (TP + FP)      recall = TP / (TP + FN)
    miou = mean of IoU over the classes that occur or are predicted

Accuracy, negative log-likelihood, Brier score and calibration errors are those of `prediction`, with every pixel as a
prediction. Pixels of one image are not independent: intervals are over images, by a bootstrap that draws whole images.
Memory depends on the number of classes alone, apart from a few small images that are kept to be shown.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitscope.core import distributed
from vitscope.core.arguments import Positive
from vitscope.core.bootstrap import (
    REPLICATES,
    biased_intervals,
    known_intervals,
    of_few,
    poisson_weights,
    standard_error,
)
from vitscope.core.statistics import Estimate, difference_interval
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.pixel_scores import (
    PIXEL_COLUMNS,
    SUMMED,
    replicate_tables,
    require_maps,
    score_images,
)
from vitscope.engine.scores import error_interval, least_error, lengthened
from vitscope.engine.shown_images import ShowsImages
from vitscope.engine.single_exam import single_exam
from vitscope.findings.segmentation import CLASS_QUANTITIES, QUANTITIES, Overlay, SegmentationResult
from vitscope.results.condition_rows import BINS, MEANS
from vitscope.tasks.segmentation import class_iou, mean_iou
from vitscope.tasks.windows import scaled_picture, windowed_scores

Window = Positive | None
SIDE = 160  # of images that are kept to be shown, at most


class SegmentationAccumulator(ShowsImages):
    """Sums over images of what their pixels add up to, plain and in every bootstrap replicate."""

    result = SegmentationResult
    task = "segmentation"
    evaluation = True
    window: ClassVar[float | None] = None
    OPTIONS = MappingProxyType({"window": Window})

    n: Tensor
    sums: Tensor  # (PIXEL_COLUMNS, 1 + replicates); the first column is plain
    classes: Tensor  # (classes, 3, 1 + replicates): pixels right, there, predicted
    images: Tensor  # (classes, 3): images in which it is there or predicted, is predicted, is there
    bin_images: Tensor  # (bins,): images with pixels in it
    sizes: Tensor  # (few, 2)
    shown: Tensor  # (few, 5, SIDE, SIDE): red, green, blue, truth, prediction

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        rows = 1 + REPLICATES
        self.add_sums(sums=(PIXEL_COLUMNS, rows), classes=(0, 3, rows), images=(0, 3), bin_images=(BINS,))
        self.add_counts("n")
        self.add_kept("sizes", (2,))
        self.add_kept("shown", (5, SIDE, SIDE), torch.int32)

    def update(self, batch: Batch) -> None:
        """Take in the predictions of one batch of images."""
        assert self.subject.pictures is not None
        require_maps(batch.logits, self.subject.model)
        self._lengthen(batch.logits.shape[1])
        scores = batch.logits if self.window is None else self._windowed(batch.indices.tolist(), self.window)
        columns, tables, maps = score_images(scores, batch.indices, self.subject.pictures)
        for index, (mask, said) in zip(batch.indices.tolist(), maps, strict=True):
            self._show(index, mask.numpy(), said.numpy())
        weights = torch.from_numpy(poisson_weights(batch.indices.cpu().numpy(), self.subject.seed))
        self.n += int((columns[:, 0] > 0).sum())
        self.sums += columns.T @ weights
        self.classes += torch.einsum("nck,nr->kcr", tables, weights)
        self.bin_images += (columns[:, SUMMED + BINS : -BINS] > 0).sum(0)
        _, there, predicted = (tables > 0).unbind(1)
        self.images += torch.stack([there | predicted, predicted, there], -1).sum(0)

    def _windowed(self, places: list[int], window: float) -> Iterator[Tensor]:
        """Scores (K, H, W) of every picture, from windows of it."""
        data, config, score = self.subject.pictures, self.subject.config, self.subject.score
        assert data is not None
        assert config is not None
        assert score is not None
        for place in places:
            image = scaled_picture(data.picture(place), config, window)
            yield windowed_scores(score, image, config.input_size[1:])

    def _show(self, index: int, mask: np.ndarray, said: np.ndarray) -> None:
        """Keep an image if it is one of the few."""
        slot = self.slot_for(index)
        if slot is None:
            return
        assert self.subject.pictures is not None
        scale = min(1.0, SIDE / max(mask.shape))
        tall, wide = (max(1, round(scale * side)) for side in mask.shape)
        picture = np.asarray(self.subject.pictures.shown(index).resize((wide, tall), Image.Resampling.BOX))
        y, x = (
            np.arange(small) * side // small for small, side in zip((tall, wide), mask.shape, strict=True)
        )
        layers = [*np.moveaxis(picture, -1, 0), *(layer[y][:, x] for layer in (mask, said))]
        self.sizes[slot] = torch.tensor([tall, wide])
        self.shown[slot, :, :tall, :wide] = torch.from_numpy(np.stack(layers).astype(np.int32))

    def merge_state(self, other: Self) -> None:
        """Take in another one's sums; one that has seen fewer classes has fewer rows."""
        length = max(len(one.classes) for one in (self, other))
        for one in (self, other):
            one._lengthen(length)
        super().merge_state(other)

    def finish(self) -> SegmentationResult:
        """The result; before sums are taken, every process has as many classes as the others."""
        self._lengthen(max(distributed.gather(len(self.classes))))
        return cast(SegmentationResult, super().finish())

    def _lengthen(self, classes: int) -> None:
        self.classes, self.images = (lengthened(own, classes) for own in (self.classes, self.images))

    def compute(self) -> dict[str, Any]:
        """Every quantity with its interval, the reliability diagram, the classes, and the images to show."""
        sums, n = self.sums.numpy().T, int(self.n)
        tables = replicate_tables(self.classes)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = dict(zip(MEANS, (sums[:, 1:SUMMED] / sums[:, :1]).T, strict=True))
            gaps = sums[:, SUMMED : SUMMED + BINS] / sums[:, :1]
            count, right = sums[:, SUMMED + BINS : -BINS], sums[:, -BINS:]
            bin_accuracy = right / count
            bin_confidence = (sums[0, SUMMED : SUMMED + BINS] + right[0]) / count[0]
        found = {
            **means,
            "miou": mean_iou(tables),
            "ece": np.abs(gaps).sum(1),
            "signed_ece": means["confidence"] - means["accuracy"],
        }
        drawn = np.column_stack([found[quantity] for quantity in QUANTITIES])
        low, high = known_intervals(drawn, n)
        signed = found["signed_ece"]
        special = {
            "miou": biased_intervals(found["miou"], n),
            "signed_ece": difference_interval(signed[0], of_few(standard_error(signed[1:]), n), n),
            "ece": error_interval(gaps[:, None], least_error(count[0], right[0], n)[None]),
        }
        for name, ends in special.items():
            low[QUANTITIES.index(name)], high[QUANTITIES.index(name)] = ends
        return {
            "n": n,
            "pixels": int(sums[0, 0]),
            "value": drawn[0],
            "low": low,
            "high": high,
            "drawn": drawn[1:],
            "bin_count": count[0].astype(np.int64),
            "bin_confidence": bin_confidence,
            "bin_accuracy": Estimate(
                bin_accuracy[0], *biased_intervals(bin_accuracy, self.bin_images.numpy())
            ),
            **self._class_fields(tables, n),
            "overlays": self._overlays(),
        }

    def _class_fields(self, tables: np.ndarray, n: int) -> dict[str, Any]:
        right, there, predicted = np.moveaxis(tables, 1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            by_class = {
                "iou": class_iou(tables),
                "precision": right / predicted,
                "recall": right / there,
                "share": there / there.sum(1, keepdims=True),
            }
        drawn = np.stack([by_class[quantity] for quantity in CLASS_QUANTITIES], -1)
        images = np.column_stack([self.images.numpy().astype(np.int64), np.full(there.shape[1], n)])
        known = () if self.subject.pictures is None else self.subject.pictures.classes
        return {
            "class_names": tuple(known[k] if k < len(known) else str(k) for k in range(there.shape[1])),
            "class_pixels": there[0].astype(np.int64),
            "class_predicted": predicted[0].astype(np.int64),
            "by_class": Estimate(drawn[0], *biased_intervals(drawn, images)),
        }

    def _overlays(self) -> tuple[Overlay, ...]:
        found = []
        for slot in self.slots:
            tall, wide = self.sizes[slot].tolist()
            layers = self.shown[slot, :, :tall, :wide].numpy()
            picture = np.ascontiguousarray(np.moveaxis(layers[:3], 0, -1).astype(np.uint8))
            found.append(Overlay.of(int(self.places[slot]), picture, layers[3], layers[4]))
        return tuple(found)


segmentation = single_exam(
    SegmentationAccumulator,
    "what `model` takes every pixel of `data` for",
    window="Show it windows of its own size, in a picture whose shorter side is so many times that; scores are "
    "averaged where they overlap. Default: the whole picture, at the size of the model.",
)
