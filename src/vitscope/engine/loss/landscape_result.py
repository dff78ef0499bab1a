"""What a landscape holds: the loss on a grid of weights, its centre, and other weights marked on it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from vitscope.engine.loss.landscape_marks import Mark
from vitscope.results import About, Result, tidy

QUANTITIES = ("nll", "l2", "loss", "accuracy", "rise")


@dataclass(frozen=True, eq=False, kw_only=True)
class LandscapeResult(Result, exam="landscape"):
    """The loss on a grid; grids are (y, x), n is the number of images."""

    about = About(
        title="Loss landscape",
        shows="The loss on the augmented training images where the weights are moved along two directions; the centre "
        "is the model itself. A wide bowl is a flat minimum, steep walls a sharp one.",
        papers="In the paper the landscape of ViT is flatter than that of ResNet, most of all at the boundary.",
        misleads="Two random directions out of millions show little of the whole, and a smooth picture can hide "
        "directions in which the loss falls. Filter normalisation takes out the scale of weights, not all of what "
        "makes models differ: compare models that were trained alike, on the same images.",
    )

    x: np.ndarray
    y: np.ndarray
    nll: np.ndarray
    nll_low: np.ndarray
    nll_high: np.ndarray
    rise: np.ndarray  # of the NLL over that of the centre, image by image
    rise_low: np.ndarray
    rise_high: np.ndarray
    accuracy: np.ndarray
    accuracy_low: np.ndarray
    accuracy_high: np.ndarray
    l2: np.ndarray
    centre: dict[str, float]  # nll and accuracy, each with _low and _high; l2
    directions: str
    normalisation: str
    explained: (
        np.ndarray
    )  # (2,) share of the squared distances of the marks along each direction; NaN if not pca
    eigenvalues: np.ndarray  # (2,) curvature along each direction; NaN if not hessian
    residuals: np.ndarray  # (2,) of the eigenvalues
    marks: tuple[Mark, ...]
    moved: tuple[str, ...]  # names of the parameters that are moved
    moved_numbers: int
    parameters: int
    weight_decay: float
    convention: str
    decay_all: bool
    augmentation: str
    batch_norm: str

    @property
    def loss(self) -> np.ndarray:
        """NLL + l2."""
        return np.asarray(self.nll + self.l2)

    @property
    def not_finite(self) -> int:
        """At how many points the NLL is infinite or not a number."""
        return int((~np.isfinite(self.nll)).sum())

    @property
    def edge(self) -> np.ndarray:
        """Which points lie on the boundary of the grid."""
        found = np.ones(self.nll.shape, dtype=bool)
        found[1:-1, 1:-1] = False
        return found

    def of(self, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A quantity on the grid, with its interval over images; that of l2, which has none, is NaN."""
        if quantity == "l2":
            return self.l2, np.full_like(self.l2, np.nan), np.full_like(self.l2, np.nan)
        base, shift = ("nll", self.l2) if quantity == "loss" else (quantity, np.zeros_like(self.l2))
        value, low, high = (getattr(self, f"{base}{end}") + shift for end in ("", "_low", "_high"))
        return value, low, high

    def table(self) -> pd.DataFrame:
        """`nll`, `l2`, `loss`, `accuracy` and `rise` by `x` and `y`, after what `summary` holds."""
        x, y = np.meshgrid(self.x, self.y)
        place = {"x": x.ravel(), "y": y.ravel()}
        grids = []
        for quantity in QUANTITIES:
            value, low, high = (part.ravel() for part in self.of(quantity))
            grids.append(tidy(quantity, value, low, high, self.n, **place))
        return pd.concat([self.summary(), *grids], ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The marks have a table of their own."""
        rows = [(mark.name, mark.epoch, mark.x, mark.y, mark.off) for mark in self.marks]
        marks = pd.DataFrame(rows, columns=["name", "epoch", "x", "y", "off"])
        return {**super().tables(), "landscape_marks": marks}

    def summary(self) -> pd.DataFrame:
        """The centre, the mean rise along the edge of the grid, and the points where the loss is not finite.

        The interval of the mean rise is the mean of its points' intervals, which is never too narrow.
        """
        c, unknown = self.centre, float("nan")
        low, high = c["nll_low"], c["nll_high"]
        with np.errstate(invalid="ignore"):
            edge = [float(np.mean(part[self.edge])) for part in self.of("rise")]
        rows: list[tuple[str, float, float, float]] = [
            ("centre nll", c["nll"], low, high),
            ("centre l2", c["l2"], unknown, unknown),
            ("centre loss", c["nll"] + c["l2"], low + c["l2"], high + c["l2"]),
            ("centre accuracy", c["accuracy"], c["accuracy_low"], c["accuracy_high"]),
            ("edge rise", edge[0], edge[1], edge[2]),
            ("points not finite", float(self.not_finite), unknown, unknown),
        ]
        names, values, lows, highs = zip(*rows, strict=True)
        nowhere = np.full(len(rows), np.nan)
        return tidy(names, values, lows, highs, self.n, x=nowhere, y=nowhere)
