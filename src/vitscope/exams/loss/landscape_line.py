"""The loss on the line between two models of the same structure, such as two checkpoints.

    L(t) = NLL(w(t)) + l2(w(t)),      w(t) = (1 - t) w_0 + t w_1,      0 <= t <= 1

All parameters are moved, and the statistics of batch norms with them, so that the ends are the two models themselves.
The excess over the chord, image by image,

    e(t) = 1/n sum_i [ NLL_i(t) - (1 - t) NLL_i(0) - t NLL_i(1) ]

is positive where a barrier lies between them; the barrier is its largest value.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from vitscope.anatomy import preserved
from vitscope.core.arguments import NotNegative
from vitscope.core.interface import takes_interface
from vitscope.curvature.penalty import Convention, Penalty
from vitscope.curvature.plane import Plane
from vitscope.curvature.plane_penalty import PlanePenalty
from vitscope.engine.cache_key import data_name, images_digest
from vitscope.engine.finished_parts import Parts
from vitscope.engine.loss.landscape_axes import Points
from vitscope.engine.loss.landscape_layout import MemoryFormat
from vitscope.engine.loss.landscape_marks import Other, difference, other_name, state_of
from vitscope.engine.loss.landscape_passes import BatchNorm, HeldLoss, Place, visit
from vitscope.engine.loss.landscape_scores import summarise
from vitscope.engine.one_pass import placed
from vitscope.models import name_of
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import preserved as draws_preserved
from vitscope.results import About, Result, tidy

QUANTITIES = ("nll", "l2", "loss", "accuracy", "excess")


@dataclass(frozen=True, eq=False, kw_only=True)
class LandscapeLineResult(Result, exam="landscape_line"):
    """The loss at `t` from 0 (`model`) to 1 (`other`); arrays are (points,), n is the number of images."""

    about = About(
        title="Loss between two models",
        shows="The loss on the augmented training images along the straight line of weights from one model to another.",
        papers="Checkpoints of one training are usually joined by a line without a barrier, trainings from different "
        "starts are not.",
        misleads="A barrier on the straight line is no barrier on every path: models that differ by the order of their "
        "channels alone have one. Statistics of batch norms between two models fit neither; estimate them "
        "(batch_norm='estimated').",
    )

    other: str
    t: np.ndarray
    nll: np.ndarray
    nll_low: np.ndarray
    nll_high: np.ndarray
    excess: np.ndarray  # of the NLL over the chord between the ends, image by image
    excess_low: np.ndarray
    excess_high: np.ndarray
    accuracy: np.ndarray
    accuracy_low: np.ndarray
    accuracy_high: np.ndarray
    l2: np.ndarray
    distance: float  # between the two models' parameters
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

    def of(self, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A quantity along the line, with its interval over images; that of l2, which has none, is NaN."""
        if quantity == "l2":
            return self.l2, np.full_like(self.l2, np.nan), np.full_like(self.l2, np.nan)
        base, shift = ("nll", self.l2) if quantity == "loss" else (quantity, np.zeros_like(self.l2))
        value, low, high = (getattr(self, f"{base}{end}") + shift for end in ("", "_low", "_high"))
        return value, low, high

    def table(self) -> pd.DataFrame:
        """`nll`, `l2`, `loss`, `accuracy` and `excess` by `t`, after what `summary` holds."""
        grids = [tidy(quantity, *self.of(quantity), self.n, t=self.t) for quantity in QUANTITIES]
        return pd.concat([self.summary(), *grids], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """The largest excess with its interval, the distance, and the points where the loss is not finite."""
        unknown = float("nan")
        top = int(np.argmax(self.excess))
        rows = [
            ("barrier", self.excess[top], self.excess_low[top], self.excess_high[top], self.t[top]),
            ("distance", self.distance, unknown, unknown, unknown),
            ("points not finite", self.not_finite, unknown, unknown, unknown),
        ]
        names, value, low, high, t = zip(*rows, strict=True)
        return tidy(names, value, low, high, self.n, t=np.array(t, dtype=np.float64))


@takes_interface
def landscape_line(
    model: nn.Module,
    other: Other,
    data: Any,
    points: Points = 21,
    weight_decay: NotNegative = 5e-2,
    l2: Convention = "half_square",
    recipe: str | Recipe | None = "hdv",
    batch_norm: BatchNorm = "kept",
    limit: int | None = 512,
    batch_size: int = 128,
    memory_format: MemoryFormat = "auto",
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    parts: Parts | None = None,
) -> LandscapeLineResult:
    """The loss on the line from `model` to `other`, a model of the same structure or a run folder of one.

    `landscape` documents the other arguments. Statistics of batch norms that are "kept" lie on the line, too.
    """
    decay_all = recipe is None or get_recipe(recipe).decay_all
    penalty, parts = Penalty(weight_decay, l2, decay_all), parts or Parts.nowhere()
    with preserved(model), draws_preserved(), placed(model, device), parts:
        loss = HeldLoss(model, data, limit, batch_size, recipe, batch_norm, seed)
        with loss.arranged(memory_format, parts):
            own = {key: t for key, t in _live_state(model).items() if t.is_floating_point()}
            tensors, direction = list(own.values()), difference(own, state_of(other), other_name(other))
            on_line = PlanePenalty(model, penalty, tensors, [direction])
            with Plane(tensors, [direction]) as line, loss.statistics_restored():
                ends = []
                for end in (0.0, 1.0):
                    line.move(end)
                    ends.append(loss.of_a_model()[0])

                def chord(place: Place) -> Tensor:
                    return (1.0 - place[0]) * ends[0] + place[0] * ends[1]

                t = np.linspace(0.0, 1.0, points)
                heading = f"{name or name_of(model)}: landscape_line"
                scores = visit(loss, line, [(float(one),) for one in t], chord, parts, heading)
        found = summarise(scores.finish()["sums"], loss.n)
        parameters = {id(parameter) for parameter in model.parameters()}
        steps = [d for tensor, d in zip(tensors, direction, strict=True) if id(tensor) in parameters]
        return LandscapeLineResult(
            model=name or name_of(model),
            data=data_name(data),
            images_digest=images_digest(data),
            n=loss.n,
            seed=seed,
            other=other_name(other),
            t=t,
            **{key.replace("rise", "excess"): value for key, value in found.items()},
            l2=np.array([on_line(float(one)) for one in t]),
            distance=float(torch.stack([d.double().square().sum() for d in steps]).sum().sqrt()),
            weight_decay=weight_decay,
            convention=l2,
            decay_all=decay_all,
            augmentation=loss.augmentation,
            batch_norm=batch_norm,
        )


def _live_state(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers by name: the model's own objects, which `state_dict` does not give out."""
    return {key: t for key, t in model.state_dict(keep_vars=True).items() if isinstance(t, Tensor)}
