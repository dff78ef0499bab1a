"""What `segmentation` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass, field

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

QUANTITIES = ("miou", "accuracy", "nll", "brier", "confidence", "ece", "signed_ece")
CLASS_QUANTITIES = ("iou", "precision", "recall", "share")
NO_CLASS = -1


@dataclass(frozen=True, eq=False)
class Overlay:
    """One image with its classes, small enough to be kept."""

    place: int  # in the data
    picture: ByteArray  # (H, W, 3)
    classes: ByteArray  # (2, H, W, 2): truth and prediction, each number in two bytes

    @classmethod
    def of(cls, place: int, picture: np.ndarray, truth: np.ndarray, said: np.ndarray) -> Overlay:
        """From a picture (H, W, 3) of bytes and two maps of classes (H, W)."""
        numbers = np.ascontiguousarray(np.stack([truth, said]).astype("<i2")[..., None]).view(np.uint8)
        return cls(place, ByteArray.of(picture), ByteArray.of(numbers))

    @property
    def truth(self) -> np.ndarray:
        """(H, W) the class of every pixel; -1 where nobody has said."""
        return self._maps[0]

    @property
    def prediction(self) -> np.ndarray:
        """(H, W) what the model takes it for."""
        return self._maps[1]

    @property
    def _maps(self) -> np.ndarray:
        return np.ascontiguousarray(self.classes.array).view("<i2")[..., 0]


@dataclass(frozen=True, eq=False, kw_only=True)
class SegmentationResult(Calibrated, Result, exam="segmentation", after="prediction", version=2):
    """Quality and calibration of a class for every pixel; `value`, `low`, `high` follow `QUANTITIES`."""

    about = About(
        title="Segmentation",
        shows="How well the pixels of each class are found: IoU is the overlap of the pixels taken for a class with "
        "those that are of it, over all that are either; its mean over classes is mIoU. The reliability diagram asks "
        "of pixels whether confidence can be believed.",
        papers="In the paper, Context Broadcasting adds 0.1 to 1.0 points of mIoU to UperNets with ViT backbones "
        "on ADE20K.",
        misleads="mIoU counts a rare class as much as a frequent one, and is uncertain where few images show it. "
        "Pixels of one image are alike: only images count as independent. Pixels that nobody has labelled do not "
        "count.",
    )
    measures = QUANTITIES
    shown_by_class = CLASS_QUANTITIES
    quantities = QUANTITIES
    in_bins = "pixels"
    needs = "data of segmentation (--data coral, masks:PATH ...) and a model that was trained for it"

    pixels: int  # that have a class
    class_names: tuple[str, ...]
    class_pixels: np.ndarray  # (classes,) pixels of the class
    class_predicted: np.ndarray  # (classes,) pixels taken for it
    # (classes, 4) in the order of CLASS_QUANTITIES; NaN where there is no pixel
    by_class: Estimate[np.ndarray] = field(metadata=stored_as("class_value", "class_low", "class_high"))
    overlays: tuple[Overlay, ...]

    @property
    def miou(self) -> float:
        """Mean over classes of intersection over union."""
        return self.quantity("miou")

    @property
    def accuracy(self) -> float:
        """Share of pixels whose prediction is right."""
        return self.quantity("accuracy")

    def table(self) -> pd.DataFrame:
        """One row per quantity; `n` counts images."""
        return tidy(QUANTITIES, *self.estimate, self.n)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The quantities, the reliability diagram bin by bin, and the classes."""
        return {**super().tables(), "reliability": self.reliability_table(), "classes": self.class_table()}

    def class_table(self) -> pd.DataFrame:
        """A row per class that occurs or is predicted: IoU, precision, recall, and its share of the pixels."""
        rows = np.flatnonzero(self.class_pixels + self.class_predicted)
        known = {quantity: i for i, quantity in enumerate(CLASS_QUANTITIES)}
        columns = class_columns(rows, self.class_names, self.by_class, known)
        counts = {
            "pixels": self.class_pixels[rows],
            "predicted": self.class_predicted[rows],
            "images": self.n,
        }
        return pd.DataFrame({**columns, **counts})


@figure(
    "segmentation",
    "Intersection over union of each class with 95 % intervals over images, from the worst to the best; the dashed "
    "line is their mean.",
)
def plot_segmentation(
    result: SegmentationResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Bars of the IoU of every class that occurs or is predicted."""
    ax = axes_or_new(ax)
    iou = result.by_class.at((slice(None), 0))
    known = np.flatnonzero(~np.isnan(iou.value))
    order = known[np.argsort(iou.value[known], kind="stable")]
    places, named = np.arange(len(order)), len(order) <= MANY
    ax.bar(places, iou.value[order], 0.7 if named else 1.0, color=colour, alpha=0.75, linewidth=0)
    line = 0.9 if named else 0.4
    draw_bars(
        ax, places, iou.at(order), fmt="none", ecolor=INK, elinewidth=line, capsize=2.0 if named else 0.0
    )
    ax.axhline(result.miou, color=INK, linestyle="--", linewidth=1.0, alpha=0.7)
    ax.text(0.0, 1.03, _figures(result), transform=ax.transAxes, fontsize=9)
    if named:
        ax.set_xticks(places, [result.class_names[k] for k in order], rotation=35, ha="right")
    else:
        ax.set_xlabel(f"{len(order)} classes, by IoU")
    ax.set_ylabel("IoU")
    ax.set_ylim(0.0, 1.0)
    grid(ax)
    return ax


@figure(
    "segmentation",
    "Reliability diagram of pixels: accuracy by confidence with 95 % intervals over images, and the share of the "
    "pixels in each bin. Faint bars: less than 0.1 %.",
    name="segmentation_reliability",
)
def plot_segmentation_reliability(
    result: SegmentationResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Accuracy of the pixels in each confidence bin, against the diagonal of perfect calibration."""
    return draw_reliability(axes_or_new(ax), result, "pixels", colour)


WRONG = (0.86, 0.15, 0.20)
UNKNOWN = (0.55, 0.55, 0.55)  # pixels that nobody has labelled
LISTED = 10  # classes in a legend
PANELS = ("image", "truth", "prediction", "errors")


@figure(
    "segmentation",
    "A few images (drawn at random), their classes, what the model takes them for, and where it is wrong "
    "(red, over the image without colour). Plain grey, if there is any: nobody has said what is there.",
    name="segmentation_overlays",
)
def plot_segmentation_overlays(
    result: SegmentationResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Image, truth, prediction and errors side by side; a colour per class, the same in every figure."""
    ax = axes_or_new(ax)
    if not result.overlays:
        return nothing(ax, "no image was shown")
    rows, inset = len(result.overlays), 0.02
    for row, overlay in enumerate(result.overlays):
        for column, cell in enumerate(_cells(overlay)):
            tall, wide = (side / max(cell.shape[:2]) * (0.5 - inset) for side in cell.shape[:2])
            x, y = column + 0.5, rows - row - 0.5
            box = (x - wide, x + wide, y - tall, y + tall)
            ax.imshow(cell, extent=box, interpolation="nearest", origin="upper")
    for column, name in enumerate(PANELS):
        ax.text(column + 0.5, rows + 0.04, name, ha="center", va="bottom", fontsize=9)
    wrong = mpl.Patch(facecolor=WRONG, edgecolor="none", label="wrong")
    patches = class_patches(_most_seen(result.overlays), result.class_names)
    return framed(ax, len(PANELS), rows, [*patches, wrong])


def _cells(overlay: Overlay) -> list[np.ndarray]:
    """The panels of one image, each (H, W, 3) from 0 to 1."""
    picture = overlay.picture.array / 255
    grey = np.repeat(picture.mean(2, keepdims=True), 3, 2)
    truth, said = overlay.truth, overlay.prediction
    wrong = np.where(((said != truth) & (truth != NO_CLASS))[..., None], WRONG, 0.35 + 0.6 * grey)
    wrong[truth == NO_CLASS] = UNKNOWN
    return [picture, _painted(truth, grey), _painted(said, grey), wrong]


def _painted(classes: np.ndarray, grey: np.ndarray) -> np.ndarray:
    """Classes in their colours over a faint copy of the picture."""
    colours = np.array([*(class_colour(k) for k in range(max(int(classes.max()), 0) + 1)), UNKNOWN])
    return np.asarray(np.clip(0.8 * colours[classes] + 0.2 * grey, 0, 1))


def _most_seen(overlays: tuple[Overlay, ...]) -> list[int]:
    """The classes that most of the pixels in the figure have, in truth or prediction, by number."""
    counts = np.bincount(
        np.concatenate([classes[classes >= 0] for o in overlays for classes in (o.truth, o.prediction)])
    )
    seen = np.argsort(-counts, kind="stable")[: min(LISTED, int((counts > 0).sum()))]
    return sorted(seen.tolist())


def _figures(result: SegmentationResult) -> str:
    return f"{result.told('miou', 'mIoU')},  {result.told('accuracy', 'pixel accuracy')}"


@reads("segmentation")
def _segmentation(result: SegmentationResult) -> str:
    rows = by_name(result.table())
    calibration = calibration_in_words(rows["signed_ece"])
    text = (
        f"The mIoU is {number(rows['miou'])} over {result.n} images; {number(rows['accuracy'])} of the pixels are "
        f"right, with a mean confidence of {number(rows['confidence'])}: {calibration}. The calibration error of "
        f"pixels is {number(rows['ece'])}."
    )
    iou = result.by_class.value[:, 0]
    known = np.flatnonzero(~np.isnan(iou))
    if len(known) < 2:
        return text
    worst, best = (result.class_names[k] for k in known[[np.argmin(iou[known]), np.argmax(iou[known])]])
    ends = f"{100 * np.nanmax(iou):.0f} %", f"{100 * np.nanmin(iou):.0f} %"
    others = int((iou[known] == iou[known].min()).sum()) - 1
    if others:
        worst = f"{worst} and {others} more"
    return f"{text} Best found is {best} (IoU {ends[0]}), worst {worst} ({ends[1]})."
