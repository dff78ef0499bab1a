"""Between what a model is shown and the picture it stands for, and random numbers that belong to a picture.

    pixel = input * std + mean        in 0 .. 1, per channel

Noise, occlusions and attacks are defined on pictures, so exams change pixels and turn them back into inputs. For that
they have to know mean and std. Pictures that were prepared here were normalised as the data configuration says. Images
that came as numbers were normalised by somebody else, and are refused

    where nobody says how: neither the user (mean=, std=) nor the model, nor its image processor;
    where they cannot have come from what was said: their pixels are not in 0 .. 1;
    where they look plain: they reach from 0 to 1, which the constants of the model, unless the user repeats them, make
    a narrow range of light pixels.

Every draw is seeded by (what it is for, seed, place of the image in the data): exams with different batches or numbers
of processes, and two models on the same images, see the same noise.
"""

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data import DataConfig, data_config
from vitscope.data.config import IMAGENET_MEAN, IMAGENET_STD
from vitscope.engine.image_range import allowed, constants, seen
from vitscope.engine.not_finite import scored_outputs
from vitscope.engine.own_passes import OwnPasses
from vitscope.engine.task_inputs import Shown

NOISE, START, PATCHES, PAIRS = range(4)  # what a draw is for
# How far pixels may lie outside of 0 .. 1: bicubic and Lanczos filters ring at sharp edges.
_ROUNDING = 0.01
_RINGING = 0.25  # at most,
_RINGING_SHARE = 0.01  # and more than rounding in this share of a batch
_REACHED = 0.02  # numbers that come as near to 0 and to 1 as this span the range of plain pixels
Score = Callable[[Any], Tensor]  # from logits (N, classes) to (N,)


def image_generators(purpose: int, seed: int, indices: Tensor) -> Iterator[np.random.Generator]:
    """A generator for each image."""
    for index in indices.tolist():
        yield np.random.default_rng([purpose, seed % 2**64, index])


def gaussian(purpose: int, seed: int, indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(N, *shape) standard normal numbers."""
    draws = [g.standard_normal(shape, np.float32) for g in image_generators(purpose, seed, indices)]
    return torch.from_numpy(np.stack(draws))


def uniform(purpose: int, seed: int, indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(N, *shape) numbers in [0, 1)."""
    draws = [g.random(shape, np.float32) for g in image_generators(purpose, seed, indices)]
    return torch.from_numpy(np.stack(draws))


class UnknownNormalisation(BadData):
    """It is not known, or not so as is said, how images that came as numbers were normalised."""


class PixelSpace:
    """The two ways for one data configuration; both keep gradients.

    Of images that came as numbers (`as_given`) those that are no pictures are refused.
    """

    def __init__(self, config: DataConfig, as_given: bool = False) -> None:
        self.config = config
        self._as_given = as_given
        self._mean = torch.tensor(config.mean, dtype=torch.float64)[:, None, None]
        self._std = torch.tensor(config.std, dtype=torch.float64)[:, None, None]

    def to_pixels(self, images: Tensor) -> Tensor:
        """Pictures (N, C, H, W), from 0 to 1 but for rounding."""
        pixels = images * self._std.to(images) + self._mean.to(images)
        if self._as_given and not are_pictures(pixels):
            raise UnknownNormalisation(
                f"{seen(images)}, and {constants(self.config)}, as {self.config.said_by} says, "
                f"{allowed(self.config)}; pass the mean= and std= that they were normalised with, or "
                "8-bit images"
            )
        return pixels

    def to_input(self, pixels: Tensor) -> Tensor:
        """What the model is shown for these pictures."""
        return (pixels - self._mean.to(pixels)) / self._std.to(pixels)


def pixel_space(own: OwnPasses) -> PixelSpace:
    """That of the images of an exam.

    Raises:
        UnknownNormalisation: They came as numbers, and nobody says how they were normalised, or it is not so.
    """
    config = data_config(own.model).for_channels(own.input_shape[0])
    space = PixelSpace(config, own.as_given)
    if own.as_given:
        refuse_unknown(own.first, config)
        space.to_pixels(own.first)  # refused before anything is measured
    return space


def refuse_unknown(images: Tensor, config: DataConfig) -> None:
    """Refuse a first batch of numbers whose constants nobody has said, or that look plain against a model's word."""
    if config.said_by == "nobody":
        imagenet = DataConfig(mean=IMAGENET_MEAN, std=IMAGENET_STD)
        raise UnknownNormalisation(
            f"{seen(images)} and nothing says how they were normalised; pass mean= and std=, for "
            f"example mean=0, std=1 if they are plain pixels from 0 to 1 (ImageNet's constants {allowed(imagenet)})"
        )
    identity = set(config.mean) == {0.0} and set(config.std) == {1.0}
    if config.said_by != "the user" and not identity and look_plain(images):
        raise UnknownNormalisation(
            f"{seen(images)}, as plain pixels are, but {constants(config)}, as {config.said_by} says, "
            f"{allowed(config)}; pass mean=0, std=1 if they are plain, or these constants if not"
        )


def are_pictures(pixels: Tensor) -> bool:
    """Whether numbers are pixels from 0 to 1, but for rounding and the ringing of resampling filters."""
    excess = torch.maximum(-pixels, pixels - 1)
    if not bool((excess > _ROUNDING).any()):
        return True
    ringing = (excess > _ROUNDING).float().mean()
    return bool(ringing <= _RINGING_SHARE) and not bool((excess > _RINGING).any())


def look_plain(images: Tensor) -> bool:
    """Whether numbers reach from 0 to 1, and not further."""
    low, high = float(images.amin()), float(images.amax())
    return -_ROUNDING <= low <= _REACHED and 1 - _REACHED <= high <= 1 + _ROUNDING


class NoGradient(UnsupportedModel):
    """The model's scores cannot be derived with respect to its image."""


class PixelModel:
    """What a model says about pictures (N, C, H, W) with pixels from 0 to 1: the normalisation is folded in.

    `dtype` is that in which it computes, `space` is by default as its data configuration says, `shown` what it is given
    of images at some places of the data. It says class scores, or what it has found (`scored_outputs`).
    """

    def __init__(
        self,
        model: nn.Module,
        dtype: torch.dtype,
        space: PixelSpace | None = None,
        shown: Shown | None = None,
    ) -> None:
        self._model, self._dtype, self._shown = model, dtype, shown
        self.space = space or PixelSpace(data_config(model))

    @classmethod
    def of(cls, own: OwnPasses) -> Self:
        """The model of an exam, and its images."""
        return cls(own.model, own.dtype, pixel_space(own), own.shown)

    def pixels(self, images: Tensor) -> Tensor:
        """The pictures of images that are prepared for the model."""
        return self.space.to_pixels(images)

    def clean(self, images: Tensor, places: Tensor | None = None) -> Any:
        """(N, classes) of images that are prepared for the model, as they are."""
        with torch.inference_mode():
            return self._said(images.to(self._dtype), places)

    def logits(self, pixels: Tensor, places: Tensor | None = None) -> Any:
        """(N, classes)."""
        with torch.inference_mode():
            return self._forward(pixels, places)

    def gradient(self, pixels: Tensor, score: Score, places: Tensor | None = None) -> Tensor:
        """The gradient of each picture's own score with respect to its pixels; parameters get none.

        Raises:
            NoGradient: The model cuts it off.
        """
        with torch.enable_grad():
            pixels = pixels.detach().requires_grad_()
            total = score(self._forward(pixels, places)).sum()
            found = torch.autograd.grad(total, pixels, allow_unused=True)[0] if total.requires_grad else None
        if found is None:
            raise NoGradient(
                "the model's scores have no gradient with respect to the image; leave out the exams that need one"
            )
        return found

    def has_gradient(self, pixels: Tensor) -> bool:
        """Whether `gradient` can differentiate the model with respect to these pixels."""
        try:
            self.gradient(pixels, best_scores)
        except NoGradient:
            return False
        return True

    def _forward(self, pixels: Tensor, places: Tensor | None) -> Any:
        return self._said(self.space.to_input(pixels).to(self._dtype), places)

    def _said(self, images: Tensor, places: Tensor | None) -> Any:
        given = images if places is None or self._shown is None else self._shown(images, places)
        return scored_outputs(self._model, images, given)


def best_scores(said: Any) -> Tensor:
    """(N,): the largest class score, its mean over pixels, or the sum of the scores of all that was found."""
    if isinstance(said, list):
        return torch.stack([found["scores"].sum() for found in said])
    best: Tensor = said.amax(1)
    return best.flatten(1).mean(1) if best.ndim > 1 else best
