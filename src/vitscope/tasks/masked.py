"""A picture and the classes of its pixels, augmented together.

As is usual for ADE20K: scaled so that its shorter side is 0.5 to 2 times the model's ("resized"), cut at random,
mirrored, colours changed. "pad" shifts by up to an eighth instead of scaling and cutting. What lies outside of the
picture has no class, and the colour that becomes 0. Of a picture many times as long as wide a random part is
taken first.
"""

from typing import Any

import numpy as np
import torch
from timm.data.transforms import str_to_interp_mode
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import functional as F

from vitscope.data import DataConfig
from vitscope.data.long_pictures import is_long, part_of_long
from vitscope.data.task_data import NO_CLASS
from vitscope.recipes.recipe import Recipe

SCALES = (0.5, 2.0)


class MaskedExample:
    """Picture and mask in; normalised image (C, H, W) and classes (H, W) out, at the size of the model."""

    def __init__(self, recipe: Recipe, config: DataConfig) -> None:
        self.size = config.input_size[1:]
        self.flip = recipe.flip
        self.scaled = recipe.crop != "pad"
        self.filter = str_to_interp_mode(config.interpolation)
        self.fill = [round(255 * value) for value in (config.mean * 3)[:3]]
        change = recipe.colour_jitter
        self.colours = transforms.ColorJitter(change, change, change) if change else None
        self.finish = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize(config.mean, config.std)]
        )
        self.grey = config.input_size[0] == 1

    def __call__(self, picture: Any, mask: np.ndarray) -> tuple[Tensor, Tensor]:
        """Draws from torch's generator."""
        picture = picture.convert("RGB")
        if self.scaled and is_long(*mask.shape):
            rows, columns = part_of_long(*mask.shape)
            picture = picture.crop((columns.start, rows.start, columns.stop, rows.stop))
            mask = mask[rows, columns]
        classes = torch.from_numpy(mask.astype(np.int64))[None]
        height, width = self._scaled(*classes.shape[1:])
        picture = F.resize(picture, [height, width], interpolation=self.filter)
        classes = F.resize(classes, [height, width], interpolation=transforms.InterpolationMode.NEAREST_EXACT)
        picture, classes = self._cut(picture, classes)
        if self.flip and torch.rand(()) < self.flip:
            picture, classes = F.hflip(picture), F.hflip(classes)
        if self.colours is not None:
            picture = self.colours(picture)
        if self.grey:
            picture = F.to_grayscale(picture)
        return self.finish(picture), classes[0]

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        if not self.scaled:
            return self.size
        low, high = SCALES
        scale = float(torch.empty(()).uniform_(low, high)) * max(self.size) / min(height, width)
        return max(round(height * scale), 1), max(round(width * scale), 1)

    def _cut(self, picture: Any, classes: Tensor) -> tuple[Any, Tensor]:
        """A place of the model's size, in a picture that is padded to have one."""
        height, width = self.size
        margins = [side // 8 if not self.scaled else 0 for side in (height, width)]
        seen = classes.shape[1:]
        down, across = (max(0, need - there) for need, there in zip(self.size, seen, strict=True))
        edges = [margins[1], margins[0], margins[1] + across, margins[0] + down]  # left, top, right, bottom
        if any(edges):
            picture = F.pad(picture, edges, fill=tuple(self.fill))
            classes = F.pad(classes, edges, fill=NO_CLASS)
        room = [there - need for there, need in zip(classes.shape[1:], self.size, strict=True)]
        top, left = (int(torch.randint(free + 1, ())) for free in room)
        return F.crop(picture, top, left, height, width), F.crop(classes, top, left, height, width)
