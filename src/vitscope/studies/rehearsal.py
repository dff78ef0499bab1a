"""An arm before its first job: is the model built, does it take its operations, how long does a step take?

What cannot be built or operated on is refused here, and not by the first job that tries, hours later.
"""

import math
import time
import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import nn

from vitscope.core.errors import BadArgument
from vitscope.data import ImageData, batches
from vitscope.data.fetchers import require_labels
from vitscope.data.folder import without_splits
from vitscope.recipes.recipe import Recipe
from vitscope.studies.design import VALIDATION, Arm
from vitscope.studies.images import Part
from vitscope.studies.resolve import OpenedImages, ResolvedArm, errors_about, learned_part, plain
from vitscope.studies.store import Store, key_of
from vitscope.studies.study import Study
from vitscope.studies.work import alone, make
from vitscope.surgery.tools.record import OPERATIONS, NoEffectWarning, record
from vitscope.tasks import find_task
from vitscope.training.checkpoint import Progress
from vitscope.training.disk import bytes_needed, checkpoints_expected
from vitscope.training.loading import Readable
from vitscope.training.setup import settle
from vitscope.training.steps import Stepper


@dataclass(frozen=True)
class Pace:
    """How much is tried out of each arm."""

    steps: int = 4  # of a training; the first is not counted
    images: int = 64  # of a forward pass
    batch: int | None = None  # images of a step, if the recipe has more: the time of a step is in proportion


@dataclass(frozen=True)
class Speed:
    """What an arm costs on this machine, from a few steps of its training and a forward pass."""

    image: float  # seconds of a forward pass, per image
    weights: int  # bytes
    training: float = 0.0  # seconds, with its looks at held-out images
    disk: int = 0  # bytes of a training, at the moment when it holds most


class Rehearsal:
    """Makes the models of a study as its jobs will, without training them."""

    def __init__(
        self,
        study: Study,
        arms: Mapping[str, ResolvedArm],
        store: Store,
        images: OpenedImages | None = None,
        pace: Pace | None = None,
        speeds: dict[str, Speed] | None = None,
        made: set[str] | None = None,
        weights: bool = True,
    ) -> None:
        """`images` are opened anew if not given; `speeds` and `made` are of arms that other studies have tried out.

        Without `weights`, pretrained ones are not fetched.
        """
        self.weights = weights
        self.study, self.arms, self.store = study, arms, store
        self.images, self.pace = images or OpenedImages(), pace or Pace()
        self._speeds: dict[str, Speed] = {} if speeds is None else speeds
        self._made: set[str] = set() if made is None else made

    def try_out(self, arm: Arm) -> None:
        """Make the model of an arm, and operate on it; refuses what cannot be made."""
        key = key_of(self._identity(arm))
        if key not in self._made:
            with alone(arm.seeds[0]):
                self._make(arm)
            self._made.add(key)

    def _make(self, arm: Arm) -> nn.Module:
        resolved = self.arms[arm.name]
        if arm.start is not None:
            net = self._make(self.study.arm(arm.start))
        else:
            arguments = dict(resolved.arguments)
            if not self.weights:
                arguments.pop("pretrained", None)
            model = {"name": arm.model, "arguments": arguments, "trust_code": resolved.trusted}
            with errors_about(f"arm {arm.name}"):
                images = self._training_images(arm) if arm.train else None
                if images is not None:
                    if isinstance(images, ImageData):
                        require_labels(images, "a training")
                    if self.study.validation is None and without_splits(images):
                        raise BadArgument(
                            f"{images.spec} has no folders train and test: what is trained on would be measured on; "
                            "hold some out (validation: 0.2 in the study), or make the folders"
                        )
                    find_task(None, images).check_recipe(resolved.recipe)
                net = make(model, (), self.store, images, resolved.recipe)
        with errors_about(f"arm {arm.name}"), warnings.catch_warnings():
            warnings.simplefilter("ignore", NoEffectWarning)
            for operation in resolved.operations:
                before = len(record(net))
                OPERATIONS[operation[0]](net, **operation[1])
                if len(record(net)) == before:
                    raise BadArgument(
                        f"{operation[0]} changes nothing in {arm.model}; leave it out, or say where"
                    )
        return net

    def speed(self, arm: Arm) -> Speed:
        """What the arm costs on this machine, measured once for arms that are made alike."""
        key = key_of(self._identity(arm))
        if key not in self._speeds:
            with alone(arm.seeds[0]):
                self._speeds[key] = self._measure(arm, self._make(arm))
        return self._speeds[key]

    def _identity(self, arm: Arm) -> dict[str, Any]:
        """All that the cost of an arm depends on."""
        resolved = self.arms[arm.name]
        start = None if arm.start is None else self._identity(self.study.arm(arm.start))
        return {
            **{"start": start, "model": arm.model, "arguments": resolved.arguments, "data": arm.data},
            **{"operations": plain(resolved.operations), "recipe": resolved.choices, "train": arm.train},
            **{"fraction": arm.fraction, "validation": self.study.validation, "every": arm.checkpoint_every},
        }

    def _training_images(self, arm: Arm) -> ImageData:
        return self.images.open(learned_part(arm, self.study))

    def _measure(self, arm: Arm, net: nn.Module) -> Speed:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        net.to(device)
        weights = sum(tensor.numel() * tensor.element_size() for tensor in net.state_dict().values())
        images = self._training_images(arm)
        image = _forward(net, images, device, self.pace.images)
        if not arm.train:
            return Speed(image, weights)
        recipe, validation = self.arms[arm.name].recipe, self.study.validation
        task = find_task(None, images)
        task.bind(net)
        config, classes = settle(net, images.classes, device, task)
        shown = _cut(recipe, self.pace.batch)
        stepper = Stepper(
            net, Readable(images, False), config, len(classes), shown, arm.seeds[0], device, task=task
        )
        step = _step(stepper, self.pace.steps)
        split = "test" if validation is None else VALIDATION
        held_out = self.images.open(
            Part(arm.data, split, 1.0, validation, skip_broken=self.study.skip_broken)
        )
        epochs = math.ceil(recipe.total_epochs)
        kept = checkpoints_expected(recipe.epochs, arm.checkpoint_every)
        return Speed(
            image,
            weights,
            epochs * (stepper.steps * step + len(held_out) * image),
            bytes_needed(net, stepper.extra_tensors(), kept),
        )


def _cut(recipe: Recipe, batch: int | None) -> Recipe:
    """The recipe with at most so many images in a step, which does not change what a step does with an image."""
    if batch is None or recipe.batch_size <= batch:
        return recipe
    return replace(recipe, batch_size=batch, lr_per=None, accumulate=1)


def _step(stepper: Stepper, steps: int) -> float:
    """Seconds of a step, with the loading of its images."""
    times = [time.perf_counter()]
    try:
        with closing(stepper.epoch(Progress())) as taken:
            times += [time.perf_counter() for _ in islice(taken, steps)]
    finally:
        stepper.release()
    counted = times[1:] if len(times) > 2 else times
    return (counted[-1] - counted[0]) / (len(counted) - 1)


def _forward(net: nn.Module, images: ImageData, device: torch.device, number: int) -> float:
    """Seconds of a forward pass per image, with its loading; a first pass is not counted."""
    net.eval()
    with torch.inference_mode():
        for _ in range(2):
            began = time.perf_counter()
            seen = 0
            for shown, _labels, _indices in batches(
                images, net, batch_size=number, limit=number, device=device
            ):
                net(shown)
                seen += len(shown)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            spent = time.perf_counter() - began
    return spent / seen
