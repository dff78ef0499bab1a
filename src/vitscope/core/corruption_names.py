"""The corruptions of CIFAR-C and ImageNet-C, by family."""

from collections.abc import Mapping

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
VERSION = 1  # raised when a corruption changes, so that images and results of the old one are made again
