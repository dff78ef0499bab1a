"""What a model expects its images to look like."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import nn

from vitscope.errors import BadData
from vitscope.interface import unwrap

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class DataConfig:
    """Size and normalisation of a model's input, in timm's terms.

    An image is resized so that its shorter side is size / crop_pct, cut to the centre, scaled to 0 .. 1 and
    normalised per channel. crop_mode "squash" ignores the aspect ratio, "border" pads instead of cutting.
    """

    input_size: tuple[int, int, int] = (3, 224, 224)
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    interpolation: str = "bicubic"
    crop_pct: float = 0.875
    crop_mode: str = "center"

    def __post_init__(self) -> None:
        size = tuple(int(side) for side in self.input_size)
        if len(size) != 3 or min(size) < 1:
            raise BadData(f"input_size is {self.input_size}; expected (channels, height, width)")
        object.__setattr__(self, "input_size", size)
        object.__setattr__(self, "mean", _per_channel(self.mean, size[0], "mean"))
        object.__setattr__(self, "std", _per_channel(self.std, size[0], "std"))
        if min(self.std) <= 0:
            raise BadData(f"std is {self.std}; expected positive numbers")
        if not 0.0 < self.crop_pct <= 1.0:
            raise BadData(f"crop_pct is {self.crop_pct}; expected a number above 0 and at most 1")

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DataConfig":
        """The inverse of `to_dict`; absent keys keep their default, unknown keys are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise BadData(
                f"data configuration has unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        ready: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**ready)


def data_config(model: nn.Module) -> DataConfig:
    """The model's own data configuration.

    Read from `pretrained_cfg` (timm, and every model vitscope makes), else from a Hugging Face `config`, else
    ImageNet's constants.
    """
    model = unwrap(model)
    timm_config = getattr(model, "pretrained_cfg", None)
    if timm_config is not None:
        return _from_timm(model, timm_config)
    hugging_face = getattr(model, "config", None)
    size = getattr(hugging_face, "image_size", None)
    if size is not None:
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        return DataConfig(input_size=(int(getattr(hugging_face, "num_channels", 3)), height, width))
    return DataConfig()


def _from_timm(model: nn.Module, config: Any) -> DataConfig:
    values: dict[str, Any] = {}
    for field in fields(DataConfig):
        value = config.get(field.name) if isinstance(config, Mapping) else getattr(config, field.name, None)
        if value is not None:
            values[field.name] = tuple(value) if isinstance(value, list) else value
    channels, *sides = values.get("input_size", DataConfig.input_size)
    built_for = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if (
        isinstance(built_for, tuple) and len(built_for) == 2
    ):  # `img_size=` at creation leaves the config as it was
        sides = list(built_for)
    values["input_size"] = (_first_channels(model, config, channels), *sides)
    return DataConfig(**values)


def _first_channels(model: nn.Module, config: Any, default: int) -> int:
    """Input channels of the first convolution: `in_chans=` at creation leaves the config as it was."""
    path = config.get("first_conv") if isinstance(config, Mapping) else getattr(config, "first_conv", None)
    if isinstance(path, tuple | list):
        path = path[0] if path else None
    if isinstance(path, str):
        try:
            return int(getattr(model.get_submodule(path), "in_channels", default))
        except AttributeError:
            return default
    return default


def _per_channel(values: Any, channels: int, what: str) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in values)
    if len(numbers) == channels:
        return numbers
    if len(numbers) == 1:
        return numbers * channels
    if channels == 1:
        return (sum(numbers) / len(numbers),)
    raise BadData(
        f"{what} has {len(numbers)} numbers for {channels} channels; expected one per channel, or one"
    )
