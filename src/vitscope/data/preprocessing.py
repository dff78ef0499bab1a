"""From pictures to what a model takes: channels, resize, centre crop, normalise.

Arrays of equal size go through batched tensor operations on the model's device; pictures of any size, and the
rarer resampling filters and crop modes, go through timm's own evaluation transform one by one. Both give the
same values up to the rounding of one grey level.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from vitscope.core.errors import BadData
from vitscope.data.config import DataConfig
from vitscope.data.decode import to_8bit
from vitscope.data.images import to_picture
from vitscope.data.long_pictures import fit_long, is_long

_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as PIL's convert("L")
_OF_PICTURES = (1, 3)  # channels
_TENSOR_FILTERS = ("bilinear", "bicubic")

Device = torch.device | str | None


def preprocess(
    images: Sequence[Image.Image] | npt.NDArray[np.uint8] | Tensor, config: DataConfig, device: Device = None
) -> Tensor:
    """Pictures, or uint8 (N, H, W, C) pixels, as normalised float32 (N, C, H, W) on `device`."""
    if isinstance(images, Sequence):
        return normalise(_fit_pictures(images, config), config, device)
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(np.require(images, requirements=("C", "W")))
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise BadData(
            f"images are {images.dtype} of shape {tuple(images.shape)}; expected uint8 (N, H, W, C)"
        )
    if not _fits_tensor_path(images, config):
        pictures = [to_picture(pixels) for pixels in images.numpy(force=True)]
        return normalise(_fit_pictures(pictures, config), config, device)
    pixels = match_channels(images.to(device).permute(0, 3, 1, 2), config.input_size[0])
    return normalise(_fit_tensor(pixels, config), config, device)


def normalise(pixels: Tensor, config: DataConfig, device: Device = None) -> Tensor:
    """(x / 255 - mean) / std of uint8 (N, C, H, W) in float32; a single channel is spread over all."""
    pixels = pixels.to(device)
    mean = torch.tensor(config.mean, dtype=torch.float64)
    std = torch.tensor(config.std, dtype=torch.float64)
    scale = (1.0 / (255.0 * std)).float().to(pixels.device).view(1, -1, 1, 1)
    shift = (-mean / std).float().to(pixels.device).view(1, -1, 1, 1)
    return torch.addcmul(shift, pixels.float(), scale).contiguous()


def match_channels(pixels: Tensor, channels: int) -> Tensor:
    """uint8 (N, C, H, W) with as many channels as wanted, or with one (`normalise` spreads it)."""
    seen = pixels.shape[1]
    if seen == 4 and channels in (1, 3):
        colour, alpha = pixels[:, :3].float(), pixels[:, 3:].float() / 255.0
        pixels = (colour * alpha + 255.0 * (1.0 - alpha)).round().to(torch.uint8)
        seen = 3
    if seen in (1, channels):
        return pixels
    if seen == 3 and channels == 1:
        weights = torch.tensor(_LUMA, device=pixels.device).view(1, 3, 1, 1)
        return (pixels.float() * weights).sum(1, keepdim=True).round().to(torch.uint8)
    raise BadData(
        f"images have {seen} channels and the model takes {channels}; take a model of as many "
        f"(in Python in_chans={seen})"
    )


def _fits_tensor_path(pixels: Tensor, config: DataConfig) -> bool:
    channels, height, width = config.input_size
    if tuple(pixels.shape[1:3]) == (height, width) and config.crop_pct == 1.0:
        return True
    if channels in _OF_PICTURES and config.crop_mode == "center" and is_long(*pixels.shape[1:3]):
        return False
    if height != width or config.interpolation not in _TENSOR_FILTERS:
        return False
    # Squashing scales the sides differently; PIL's rounding between its two passes then shows in the result.
    square = pixels.shape[1] == pixels.shape[2]
    return config.crop_mode == "center" or (config.crop_mode == "squash" and square)


def _fit_tensor(pixels: Tensor, config: DataConfig) -> Tensor:
    """Resize and cut uint8 (N, C, H, W) to the model's square side."""
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as F

    side = config.input_size[1]
    before_crop = math.floor(side / config.crop_pct)
    if tuple(pixels.shape[2:]) == (side, config.input_size[2]) and before_crop == side:
        return pixels
    size = [before_crop, before_crop] if config.crop_mode == "squash" else [before_crop]
    filter_ = InterpolationMode(config.interpolation)
    return F.center_crop(F.resize(pixels, size, interpolation=filter_, antialias=True), [side, side])


def _fit_pictures(pictures: Sequence[Image.Image], config: DataConfig) -> Tensor:
    """Resize and cut with timm's evaluation transform; uint8 (N, C, H, W)."""
    if config.input_size[0] not in _OF_PICTURES:
        raise BadData(
            f"pictures are grey or RGB and the model takes {config.input_size[0]} channels; give tensors"
        )
    mode = "L" if config.input_size[0] == 1 else "RGB"
    return torch.stack([_fit(to_8bit(picture).convert(mode), config) for picture in pictures])


def _fit(picture: Image.Image, config: DataConfig) -> Any:
    """uint8 (C, H, W)."""
    transform = _eval_transform(config)
    if config.crop_mode == "squash" or not is_long(picture.height, picture.width):
        return transform(picture)
    from torchvision.transforms.v2 import functional as F

    fitted = fit_long(picture, config)
    return transform(fitted) if config.crop_mode == "border" else F.pil_to_tensor(fitted)


@lru_cache(maxsize=8)
def _eval_transform(config: DataConfig) -> Any:
    from timm.data import create_transform

    return create_transform(
        config.input_size,
        is_training=False,
        interpolation=config.interpolation,
        mean=config.mean,
        std=config.std,
        crop_pct=config.crop_pct,
        crop_mode=config.crop_mode,
        normalize=False,
    )
