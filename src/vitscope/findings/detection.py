"""What `detection` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.classes import MANY, class_colour, class_patches, framed
from vitscope.drawing.curves import draw_bars, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.reliability import draw_reliability
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result, tidy
from vitscope.results.calibrated import Calibrated, calibration_in_words, class_columns
from vitscope.results.codec import ByteArray, stored_as
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number

SIZES = ("small", "medium", "large")
_OF_KIND = ("ap", "ap50", "ap75", *(f"ap_{size}" for size in SIZES))
PRECISIONS = tuple(f"{kind}_{name}" for kind in ("box", "mask") for name in _OF_KIND)
QUANTITIES = (
    *PRECISIONS,
    *("precision", "recall", "confidence", "ece", "signed_ece", "boxes_per_image", "objects_per_image"),
)
CLASS_QUANTITIES = ("box_ap", "box_ap50", "mask_ap", "precision", "recall")


@dataclass(frozen=True, eq=False)
class ShownObjects:
    """One image with what is there and what was found, small enough to be kept; boxes in pixels of the small image."""

    place: int  # in the data
    picture: ByteArray  # (H, W, 3)
    there: np.ndarray  # (K, 5): left, top, right, bottom, class
    found: np.ndarray  # (M, 7): the same, score, and 1 if it is right; the highest scores
    outlines: ByteArray  # (2, H, W): which object, and which detection, from 1 on, a pixel is of; 0: none, or no masks


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectionResult(Calibrated, Result, exam="detection", after="segmentation", version=2):
    """Quality and calibration of boxes and masks; `value`, `low`, `high` follow `QUANTITIES` (NaN: there is none)."""

    about = About(
        title="Detection",
        shows="How well objects are found: average precision (AP) is the precision at every recall, averaged over "
        "classes and over how well boxes, or masks, have to fit (IoU 0.50 to 0.95), as COCO defines it. The "
        "reliability diagram asks whether a box with a score of 0.8 is right in 80 % of cases.",
        papers="In the paper, Context Broadcasting raises the box AP of a Mask R-CNN on COCO from 34.8 to 35.1, its "
        "mask AP from 32.5 to 32.8.",
        misleads="AP counts a rare class as much as a frequent one. Objects of fewer than 32 x 32 pixels are small to "
        "COCO, whatever the picture's size. A second box on the same object is wrong, however well it fits.",
    )
    measures = QUANTITIES
    quantities = QUANTITIES
    in_bins = "detections"
    needs = "data of detection (--data coral-objects, coco:PATH ...) and a model that was trained for it"

    score: float  # that boxes have at least of which precision, recall and number are told
    detections: int  # of any score
    objects: int  # that count: no crowds
    class_names: tuple[str, ...]
    class_objects: np.ndarray  # (classes,)
    class_found: np.ndarray  # (classes,) detections of at least the score
    # (classes, 5) in the order of CLASS_QUANTITIES; NaN where there is none
    by_class: Estimate[np.ndarray] = field(metadata=stored_as("class_value", "class_low", "class_high"))
    shown: tuple[ShownObjects, ...]

    @property
    def shown_by_class(self) -> tuple[str, ...]:
        """What a page tells of every class."""
        return tuple(q for q in CLASS_QUANTITIES if q != "mask_ap" or not np.isnan(self.mask_ap))

    @property
    def box_ap(self) -> float:
        """Average precision of boxes."""
        return self.quantity("box_ap")

    @property
    def mask_ap(self) -> float:
        """Average precision of masks; NaN where data or model has none."""
        return self.quantity("mask_ap")

    @property
    def _known(self) -> list[int]:
        return [i for i in range(len(QUANTITIES)) if not np.isnan(self.value[i])]

    def replicates(self) -> dict[str, np.ndarray]:
        """Those of every quantity that there is."""
        every = super().replicates()
        return {QUANTITIES[i]: every[QUANTITIES[i]] for i in self._known}

    def table(self) -> pd.DataFrame:
        """One row per quantity that there is; `n` counts images."""
        known = self._known
        return tidy([QUANTITIES[i] for i in known], *self.estimate.at(known), self.n)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The quantities, the reliability diagram bin by bin, and the classes."""
        return {**super().tables(), "reliability": self.reliability_table(), "classes": self.class_table()}

    def class_table(self) -> pd.DataFrame:
        """A row per class that occurs or is found: AP of boxes and masks, precision and recall at the score."""
        rows = np.flatnonzero(self.class_objects + self.class_found)
        known = {quantity: CLASS_QUANTITIES.index(quantity) for quantity in self.shown_by_class}
        columns = class_columns(rows, self.class_names, self.by_class, known)
        counts = {"objects": self.class_objects[rows], "found": self.class_found[rows], "images": self.n}
        return pd.DataFrame({**columns, **counts})


@figure(
    "detection",
    "Average precision of boxes (bars) and masks (diamonds) of each class with 95 % intervals over images, from the "
    "worst to the best; the dashed line is the mean of boxes.",
)
def plot_detection(result: DetectionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Bars of the AP of every class that has objects."""
    ax = axes_or_new(ax)
    boxes, masks = (
        result.by_class.at((slice(None), CLASS_QUANTITIES.index(q))) for q in ("box_ap", "mask_ap")
    )
    known = np.flatnonzero(~np.isnan(boxes.value))
    if not len(known):
        return nothing(ax, "there are no objects")
    order = known[np.argsort(boxes.value[known], kind="stable")]
    places, named = np.arange(len(order)), len(order) <= MANY
    ax.bar(places, boxes.value[order], 0.7 if named else 1.0, color=colour, alpha=0.75, linewidth=0)
    line, cap = (0.9, 2.0) if named else (0.4, 0.0)
    draw_bars(ax, places, boxes.at(order), fmt="none", ecolor=INK, elinewidth=line, capsize=cap)
    if not np.isnan(result.mask_ap):
        aside = places + (0.22 if named else 0.0)
        size = 5.0 if named else 1.5
        draw_bars(
            ax,
            aside,
            masks.at(order),
            fmt="D",
            clip_on=False,  # a marker at 0 is whole
            color=INK,
            markersize=size,
            elinewidth=line,
            markerfacecolor="white",
        )
    ax.axhline(result.box_ap, color=INK, linestyle="--", linewidth=1.0, alpha=0.7)
    ax.text(0.0, 1.03, _figures(result), transform=ax.transAxes, fontsize=9)
    if named:
        ax.set_xticks(places, [result.class_names[k] for k in order], rotation=35, ha="right")
    else:
        ax.set_xlabel(f"{len(order)} classes, by AP")
    ax.set_ylabel("AP")
    highest = np.nanmax([boxes.high[order], masks.high[order]])
    ax.set_ylim(0.0, min(1.0, 1.15 * max(float(highest), 0.02)))
    grid(ax)
    return ax


def _figures(result: DetectionResult) -> str:
    labels = {"box_ap": "box AP", "mask_ap": "mask AP"}
    known = (name for name in labels if not np.isnan(result.quantity(name)))
    return ",  ".join(result.told(name, labels[name]) for name in known)


@figure(
    "detection",
    "Reliability diagram of boxes: the share that is right (of an object of their class, IoU at least 0.5) by score, "
    "with 95 % intervals over images, and the share of the boxes in each bin. Faint bars: less than 0.1 %.",
    name="detection_reliability",
)
def plot_detection_reliability(
    result: DetectionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Share of right boxes in each bin of scores, against the diagonal of perfect calibration."""
    ax = draw_reliability(axes_or_new(ax), result, "boxes", colour)
    ax.set_xlabel("Score")
    return ax


PANELS = ("what is there", "what is found")


@figure(
    "detection",
    "A few images (drawn at random) with the objects that are there, and the boxes with the highest scores: solid if "
    "right (IoU at least 0.5), dashed if wrong; boxes and masks are fainter with a lower score.",
    name="detection_objects",
)
def plot_detection_objects(
    result: DetectionResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Truth and detections side by side, boxes and masks; a colour per class, the same in every figure."""
    ax = axes_or_new(ax)
    if not result.shown:
        return nothing(ax, "no image was shown")
    seen: set[int] = set()
    for column, one in enumerate(result.shown):
        tall, wide, _ = one.picture.shape
        scale = 0.96 / max(tall, wide)
        for row, boxes in enumerate((one.there, one.found)):
            left, top = column + 0.5 - wide * scale / 2, len(PANELS) - row - 0.5 + tall * scale / 2
            extent = (left, left + wide * scale, top - tall * scale, top)
            ax.imshow(_painted(one, row), extent=extent, interpolation="nearest", origin="upper")
            for box in boxes[::-1]:  # the highest score on top
                _draw_box(ax, box, left, top, scale)
            seen |= {int(box[4]) for box in boxes}
    for row, name in enumerate(PANELS):
        ax.text(-0.02, len(PANELS) - row - 0.5, name, ha="right", va="center", rotation=90, fontsize=9)
    return framed(ax, len(result.shown), len(PANELS), class_patches(sorted(seen)[:10], result.class_names))


def _draw_box(ax: mpl.Axes, box: np.ndarray, left: float, top: float, scale: float) -> None:
    """A box of the small image, which has its upper left corner at (left, top)."""
    score, right = (float(box[5]), bool(box[6])) if len(box) > 5 else (1.0, True)
    x, y = left + box[[0, 2, 2, 0, 0]] * scale, top - box[[1, 1, 3, 3, 1]] * scale
    shade, opacity = class_colour(int(box[4])), _opacity(score)
    ax.plot(x, y, "-" if right else "--", color=shade, linewidth=1.4, alpha=opacity)
    if len(box) > 5:
        ax.text(x[0], y[0], f"{score:.2f}", fontsize=5.5, color=shade, alpha=opacity, va="top", clip_on=True)


def _opacity(score: Any) -> Any:
    """Of a box and its mask: those of a small model, with scores of a tenth, have to be seen as well."""
    return 0.4 + 0.6 * score


def _painted(one: ShownObjects, row: int) -> np.ndarray:
    """(H, W, 3) from 0 to 1: the picture, with masks in the colours of their classes over it, by their scores."""
    picture, numbers = one.picture.array / 255, one.outlines.array[row]
    boxes = (one.there, one.found)[row]
    scores = boxes[:, 5] if row else np.ones(len(boxes))
    colours = np.array([(0.0, 0.0, 0.0), *(class_colour(int(box[4])) for box in boxes)])
    opacity = 0.55 * np.array([0.0, *_opacity(scores)])[numbers][..., None]
    return np.asarray((1 - opacity) * picture + opacity * colours[numbers])


@reads("detection")
def _detection(result: DetectionResult) -> str:
    rows = by_name(result.table())
    if "box_ap" not in rows:
        return f"There is no object in the {result.n} images."
    masks = f", of masks {number(rows['mask_ap'])}" if "mask_ap" in rows else ""
    text = (
        f"The average precision of boxes is {number(rows['box_ap'])}{masks}, over {result.n} images with "
        f"{result.objects} objects."
    )
    if "recall" in rows:
        precise = (
            f"{number(rows['precision'])} of these boxes are right"
            if "precision" in rows
            else "there is no box with such a score"
        )
        text += (
            f" Of the objects, {number(rows['recall'])} are found by boxes with a score of at least {result.score:g}; "
            f"{precise}."
        )
    signed = rows.get("signed_ece")
    if signed is None:
        return text
    over = "scores are higher than the share of boxes that are right"
    calibration = calibration_in_words(signed, over, "boxes are more often right than their scores say")
    return f"{text} The calibration error of boxes is {number(rows['ece'])}: {calibration}."
