"""Numbers that images came as, beside those that the constants of a data configuration allow."""

from collections.abc import Sequence

from torch import Tensor

from vitscope.core.errors import warn
from vitscope.data import DataConfig

_FAR = 20  # times as large as any that is allowed: 8-bit numbers are, and what filters or own constants make is not


def tell_of_far(images: Tensor, config: DataConfig) -> None:
    """Say so if numbers cannot be those that the model learned from, where exams show them as they are."""
    if config.said_by == "nobody" or not images.numel():
        return
    most = max(abs(end) for ends in _ranges(config) for end in ends)
    if float(images.abs().amax()) > _FAR * most:
        warn(
            f"{seen(images)}, and {constants(config)}, as {config.said_by} says, {allowed(config)}: what is "
            "measured is of images that the model was not made for; pass 8-bit images, which are prepared here, or "
            "(pixels / 255 - mean) / std; or the mean= and std= that they were normalised with"
        )


def seen(images: Tensor) -> str:
    """What they are, in words."""
    return f"the images are numbers from {float(images.amin()):.3f} to {float(images.amax()):.3f}"


def constants(config: DataConfig) -> str:
    """Mean and deviation, in words."""
    return f"mean {_listed(config.mean)} and std {_listed(config.std)}"


def allowed(config: DataConfig) -> str:
    """What pixels from 0 to 1 become, per channel."""
    return f"allow {', '.join(dict.fromkeys(f'{low:.3f} to {high:.3f}' for low, high in _ranges(config)))}"


def _ranges(config: DataConfig) -> list[tuple[float, float]]:
    pairs = zip(config.mean, config.std, strict=True)
    return [((0 - mean) / std, (1 - mean) / std) for mean, std in pairs]


def _listed(numbers: Sequence[float]) -> str:
    listed = [f"{number:.4g}" for number in numbers]
    return listed[0] if len(set(listed)) == 1 else f"({', '.join(listed)})"
