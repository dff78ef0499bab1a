"""From a labelled picture to a training example: timm's augmentations in the order that DeiT uses."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from timm.data import Mixup, rand_augment_transform
from timm.data.random_erasing import RandomErasing
from timm.data.transforms import RandomResizedCropAndInterpolation, str_to_interp_mode, str_to_pil_interp
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import transforms

from vitscope.core.errors import BadData, VitscopeError
from vitscope.data import DataConfig
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import IMAGE, seed_cpu

_SMALL = 32


def training_transform(recipe: Recipe, config: DataConfig) -> transforms.Compose:
    """PIL image in, normalised and augmented tensor (C, H, W) out."""
    channels, height, width = config.input_size
    if channels not in (1, 3):
        raise VitscopeError(
            f"the model takes images of {channels} channels; training augments images of 1 or 3"
        )
    steps: list[Any] = [transforms.Lambda(_as_rgb), *_crop(recipe, config)]
    if recipe.flip:
        steps.append(transforms.RandomHorizontalFlip(recipe.flip))
    if recipe.colour_jitter:
        steps.append(transforms.ColorJitter(*[recipe.colour_jitter] * 3))
    if recipe.auto_augment:
        fill = tuple(round(255 * value) for value in (config.mean * 3)[:3])
        settings: dict[str, Any] = {
            "translate_const": int(0.45 * min(height, width)),
            "img_mean": fill,
            "interpolation": str_to_pil_interp(config.interpolation),
        }
        if "-inc" in recipe.auto_augment and "mmax" not in recipe.auto_augment:
            # at exactly 10 timm posterizes to 0 bits, which newer Pillows refuse
            settings["magnitude_max"] = math.nextafter(10, 0)
        steps.append(rand_augment_transform(recipe.auto_augment, settings))
    if channels == 1:
        steps.append(transforms.Grayscale())
    steps += [transforms.ToTensor(), transforms.Normalize(config.mean, config.std)]
    if recipe.erase:
        steps.append(RandomErasing(recipe.erase, mode="pixel", device="cpu"))
    return transforms.Compose(steps)


class LabelledExample:
    """What makes a training example of a picture and its label; it can be sent to other processes."""

    def __init__(self, recipe: Recipe, config: DataConfig) -> None:
        self._transform = training_transform(recipe, config)

    def __call__(self, image: Any, label: Any) -> tuple[Tensor, int]:
        """The augmented picture, and the label as a plain number."""
        return self._transform(image), int(label)


class AugmentedData(Dataset[Any]):
    """Pictures, augmented; what becomes of image `i` in an epoch depends on (seed, epoch, i) alone.

    `example` makes an example of a picture and its target, drawing from the usual generators; default: with a label.
    """

    def __init__(
        self,
        data: Any,
        recipe: Recipe,
        config: DataConfig,
        seed: int,
        example: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        self.data = data
        self.example = example or LabelledExample(recipe, config)
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        image, target = self.data[index]
        seed_cpu(IMAGE, self.seed, self.epoch, index)
        return self.example(image, target)


class Mix:
    """Mixup, CutMix and label smoothing.

    timm's Mixup takes even batches only; of an odd one the last image stays unmixed.
    """

    def __init__(self, recipe: Recipe, n_classes: int) -> None:
        mixes = recipe.mixup > 0 or recipe.cutmix > 0
        self._mixup = Mixup(
            mixup_alpha=recipe.mixup,
            cutmix_alpha=recipe.cutmix,
            prob=recipe.mix_probability if mixes else 0.0,
            label_smoothing=recipe.label_smoothing,
            num_classes=n_classes,
        )
        self._smoothing = recipe.label_smoothing
        self._n_classes = n_classes

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Images and labels (N,) in, images and target probabilities (N, classes) out."""
        if len(images) % 2 == 0:
            return self._mixup(images, labels)
        if len(images) == 1:
            return images, self._smooth(labels)
        mixed, target = self._mixup(images[:-1], labels[:-1])
        return torch.cat([mixed, images[-1:]]), torch.cat([target, self._smooth(labels[-1:])])

    def _smooth(self, labels: Tensor) -> Tensor:
        hard = torch.nn.functional.one_hot(labels, self._n_classes).float()
        return hard * (1 - self._smoothing) + self._smoothing / self._n_classes


def _as_rgb(image: Any) -> Image.Image:
    if isinstance(image, np.ndarray) and image.dtype == np.uint8:
        image = Image.fromarray(image[..., 0] if image.ndim == 3 and image.shape[-1] == 1 else image)
    if not isinstance(image, Image.Image):
        raise BadData(
            f"the training data yields {type(image).__name__} images; expected PIL images or uint8 arrays "
            "(H, W, C) to augment: leave ToTensor and Normalize out of the data set's transform"
        )
    return image.convert("RGB")


def _crop(recipe: Recipe, config: DataConfig) -> list[Any]:
    _, height, width = config.input_size
    mode = recipe.crop
    if mode == "auto":
        mode = "pad" if max(height, width) <= _SMALL else "resized"
    if mode == "resized":
        return [RandomResizedCropAndInterpolation((height, width), interpolation=config.interpolation)]
    return [
        transforms.Resize((height, width), interpolation=str_to_interp_mode(config.interpolation)),
        transforms.RandomCrop((height, width), padding=min(height, width) // 8),
    ]
