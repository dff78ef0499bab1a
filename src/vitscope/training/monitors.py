"""What a training looks at besides its loss: exams on a fixed set of images, every few epochs.

    vitscope train vit_mini --data fashion --monitor variance hessian --out runs/a      # runs/a/monitors.csv

A monitor is any exam that shares one pass over the data, on the same images each time, or `hessian`: the eigenvalue of
largest magnitude of the Hessian of the training loss (without weight decay), on one batch that is augmented and
mixed once and then kept. A model is looked at before the first step, every n epochs, and at the end. Unless n is given,
it is the smallest with which looking takes less than 5 % of the time of the whole training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from torch import nn

from vitscope.core import distributed, pd
from vitscope.core.arguments.files import reason
from vitscope.core.errors import VitscopeError, did_you_mean
from vitscope.curvature import BatchLoss, hessian_of_loss, lanczos
from vitscope.curvature.spectrum import random_start
from vitscope.exams import EXAMS, Accumulator, examine
from vitscope.recipes.seeding import STEP, order, seed_all
from vitscope.results import atomic_write, tidy
from vitscope.training.parallel import is_sharded, share_buffers
from vitscope.training.resume import Start
from vitscope.training.setup import TrainingPlan
from vitscope.training.steps import Stepper

FILE = "monitors.csv"
SHARE = 0.05  # of the time of a training, that monitors may take by default
IMAGES = 256
HESSIAN = "hessian"
HESSIAN_IMAGES = 16


class Monitors:
    """Looks at the model of a training now and then, and keeps what it sees in `monitors.csv`.

    Args:
        plan: Says which exams, and how often to look; they are shown the held-out images, or those to train on.
        stepper: The training.
        start: Where it begins; its position keeps how long looking took, so that a resumed training goes on the same
            way. What was seen up to there is kept.
    """

    def __init__(self, plan: TrainingPlan, stepper: Stepper, start: Start) -> None:
        options, images = plan.options, plan.images
        self._exams = find_monitors(options.monitor)
        self._hessian = HESSIAN in options.monitor
        self.active = bool(self._exams or self._hessian)
        if self.active and is_sharded(stepper.model):
            raise VitscopeError(
                "monitors need the whole model in each process; leave --monitor out, or do without --shard"
            )
        self._every, self._stepper, self._position = options.monitor_every, stepper, start.position
        self._images = images.held_out if images.held_out is not None else images.train.data
        self._epochs = math.ceil(stepper.recipe.total_epochs)
        self._path = plan.folder / FILE
        self._probe: BatchLoss | None = None
        self._rows = self._earlier(start.position.epoch if start.resumed else -1)

    @property
    def share(self) -> float:
        """Part of the time so far that looking took."""
        return self._position.monitored / self._position.seconds if self._position.seconds else 0.0

    def look(self, epoch: int) -> dict[str, float]:
        """If it is time to, look at the model after `epoch` epochs, and keep what is seen.

        Every process calls this. Returns the numbers that belong to the whole model, by name.
        """
        if not (self.active and self._is_due(epoch)):
            return {}
        began = time.monotonic()
        model = self._stepper.measured
        share_buffers(model)
        tables = self._exam_tables(model) + ([self._hessian_table(model)] if self._hessian else [])
        for table in tables:
            table.insert(0, "epoch", epoch)
        self._rows = pd.concat([self._rows, *tables], ignore_index=True)
        if distributed.is_main():
            atomic_write(self._path, self._rows.to_csv(index=False))
        self._position.monitored += time.monotonic() - began
        if epoch == 0:
            self._position.look_seconds = time.monotonic() - began
        return _whole_model(tables)

    def _is_due(self, epoch: int) -> bool:
        if epoch in (0, self._epochs):
            return True
        if self._every is None and self._position.monitor_every is None:
            self._position.monitor_every = affordable_interval(
                self._position.look_seconds, self._position.seconds - self._position.monitored, self._epochs
            )
        return epoch % (self._every or self._position.monitor_every or 1) == 0

    def _exam_tables(self, model: nn.Module) -> list[pd.DataFrame]:
        if not self._exams:
            return []
        seed, device = self._stepper.seed, self._stepper.device
        found = examine(model, self._images, self._exams, limit=IMAGES, seed=seed, device=device)
        tables = []
        for exam, result in found.items():
            table = result.summary().copy()
            table.insert(0, "exam", exam)
            tables.append(table)
        return tables

    def _hessian_table(self, model: nn.Module) -> pd.DataFrame:
        batch = self._hessian_batch()
        with hessian_of_loss(model, batch) as product:
            found = lanczos(product, random_start(product, seed=0), k=1, tol=1e-2)
        none = np.full(1, np.nan)
        table = tidy("eigenvalue", found.values, none, none, len(batch))
        table.insert(0, "exam", HESSIAN)
        return table.assign(residual=found.residuals, converged=found.converged)

    def _hessian_batch(self) -> BatchLoss:
        """The loss of images and targets that are drawn once, as the first step of the first epoch would."""
        if self._probe is None:
            step = self._stepper
            step.data.epoch = 0
            chosen = order(step.n_images, step.seed, 0)[:HESSIAN_IMAGES]
            batch = step.task.collate([step.data[index] for index in chosen])
            seed_all(STEP, step.seed, 0, 0)
            draws = [(STEP, step.seed, 0, 0, place) for place in range(len(chosen))]
            self._probe = step.task.loss(*step.mixed(*batch), draws)
        return self._probe

    def _earlier(self, epoch: int) -> pd.DataFrame:
        """What was seen before, up to where the training stands."""
        if not (self.active and self._path.exists()):
            return pd.DataFrame()
        try:
            rows = pd.read_csv(self._path, float_precision="round_trip", dtype={"stage": "Int64"})
            return rows[rows["epoch"] <= epoch]
        except (ValueError, KeyError, OSError) as error:
            raise VitscopeError(
                f"{self._path} is damaged ({reason(error)}); remove it: what it held is lost"
            ) from error


def find_monitors(names: Sequence[str]) -> list[type[Accumulator]]:
    """The exams of these names, without `hessian`."""
    streaming = {name: exam for name, exam in EXAMS.items() if isinstance(exam, type)}
    for name in names:
        if name != HESSIAN and name not in streaming:
            raise VitscopeError(f"no monitor '{name}'; {did_you_mean(name, (*streaming, HESSIAN))}")
    return [streaming[name] for name in dict.fromkeys(names) if name != HESSIAN]


def affordable_interval(look: float, epoch: float, epochs: int) -> int:
    """The fewest epochs between two looks with which all of them, the first included, take less than `SHARE`.

    `look` and `epoch` are the seconds that one look takes, and an epoch without it.
    """
    for every in range(1, epochs):
        looks = 1 + math.ceil(epochs / every)
        if looks * look < SHARE * (epochs * epoch + looks * look):
            return every
    return max(1, epochs)


def _whole_model(tables: Sequence[pd.DataFrame]) -> dict[str, float]:
    """What belongs to the whole model, by exam and quantity."""
    whole = (table[table["unit"].isna() & table["kind"].isna()] for table in tables)
    return {
        f"{exam}/{quantity}": float(value)
        for table in whole
        for exam, quantity, value in zip(table["exam"], table["quantity"], table["value"], strict=True)
    }
