"""What a model expects its images to look like."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Literal, get_type_hints

from torch import nn

from vitscope.core.arguments import Count, Number, Positive, Range, Side, check, names_checked
from vitscope.core.errors import BadData
from vitscope.core.interface import interface_of, unwrap
from vitscope.data.processors import saved_processor, stated

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
LEAST_CROP = 0.1  # images are enlarged to size / crop_pct before they are cut
CHANNELS = (1, 3, 4)  # grey, colour, and colour with one more

Interpolation = Literal[
    "nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos", "random"
]
SaidBy = Literal["the user", "the model", "its image processor", "nobody"]


@names_checked
@dataclass(frozen=True)
class DataConfig:
    """Size and normalisation of a model's input, in timm's terms.

    An image is resized so that its shorter side is size / crop_pct, cut to the centre, scaled to 0 .. 1 and
    normalised per channel. crop_mode "squash" ignores the aspect ratio, "border" pads instead of cutting.

    Mean and deviation are one number per channel, or one for all. Three that meet another number of channels count for
    the first three of more, their average for all others; nobody has said such constants then.
    """

    input_size: tuple[Count, Side, Side] = (3, 224, 224)
    mean: tuple[Number, ...] = IMAGENET_MEAN
    std: tuple[Positive, ...] = IMAGENET_STD
    interpolation: Interpolation = "bicubic"
    crop_pct: Annotated[float, Range(LEAST_CROP, 1)] = 0.875
    crop_mode: Literal["center", "squash", "border"] = "center"
    said_by: SaidBy = field(default="the user", compare=False)  # mean and std; "nobody": they are a guess

    def __post_init__(self) -> None:
        size = tuple(int(side) for side in self.input_size)
        if len(size) != 3 or min(size) < 1:
            raise BadData(f"input_size is {self.input_size}; expected (channels, height, width)")
        object.__setattr__(self, "input_size", size)
        object.__setattr__(self, "mean", _per_channel(self.mean, size[0], "mean"))
        object.__setattr__(self, "std", _per_channel(self.std, size[0], "std"))
        if min(self.std) <= 0:
            raise BadData(f"std is {self.std}; expected positive numbers")
        if not LEAST_CROP <= self.crop_pct <= 1.0:
            raise BadData(f"crop_pct is {self.crop_pct}; expected a number from {LEAST_CROP} to 1")

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values; whoever reads them is told by them, unless nobody has said mean and std."""
        values = asdict(self)
        if self.said_by != "nobody":
            del values["said_by"]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DataConfig":
        """The inverse of `to_dict`; absent keys keep their default, unknown keys are refused."""
        known = {one.name for one in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise BadData(
                f"data configuration has unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        hints = get_type_hints(cls, include_extras=True)
        ready: dict[str, Any] = {
            k: check(tuple(v) if isinstance(v, list) else v, hints[k], f"data configuration: {k}")
            for k, v in values.items()
        }
        return cls(**{"said_by": "the model" if {"mean", "std"} <= set(values) else "nobody", **ready})

    def whole(self) -> "DataConfig":
        """The same for whole pictures, brought to the size whatever their shape: nothing is cut off.

        What is said of places in a picture of a task is said of all of it.
        """
        return replace(self, crop_mode="squash", crop_pct=1.0)

    def for_channels(self, channels: int) -> "DataConfig":
        """The same for images of this many channels, whatever number was thought of."""
        if channels == self.input_size[0]:
            return self
        same: dict[str, Any] = {what: _one_number(getattr(self, what)) for what in ("mean", "std")}
        said_by = self.said_by if all(len(numbers) == 1 for numbers in same.values()) else "nobody"
        if self.said_by == "the user" and said_by == "nobody":
            raise BadData(
                f"mean is {self.mean}, std is {self.std}, and the images have {channels} channels; expected one number "
                "per channel, or one"
            )
        return replace(self, input_size=(channels, *self.input_size[1:]), said_by=said_by, **same)


def data_config(model: nn.Module) -> DataConfig:
    """The model's own data configuration.

    Read from `pretrained_cfg` (timm, and every model vitscope makes), else from a Hugging Face `config` and the image
    processor saved beside it, else ImageNet's constants. A mean and a std that the user declared count for more.
    """
    model = unwrap(model)
    timm_config = getattr(model, "pretrained_cfg", None)
    config = _from_hugging_face(model) if timm_config is None else _from_timm(model, timm_config)
    said = interface_of(model)
    given = {what: numbers for what in ("mean", "std") if (numbers := getattr(said, what)) is not None}
    return _declared(config, given) if given else config


def _from_timm(model: nn.Module, config: Any) -> DataConfig:
    values: dict[str, Any] = {}
    for one in fields(DataConfig):
        value = _entry(config, one.name)
        if value is not None:
            values[one.name] = tuple(value) if isinstance(value, list) else value
    channels, *sides = values.get("input_size", DataConfig.input_size)
    built_for = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if isinstance(built_for, tuple) and len(built_for) == 2:  # `img_size=` leaves the config as it was
        sides = list(built_for)
    values["input_size"] = (_first_channels(model, config, channels), *sides)
    return _completed(values, values.get("said_by", "the model"))


def _entry(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _from_hugging_face(model: nn.Module) -> DataConfig:
    """As the processor beside the model says, for the size that the model is made for."""
    config = getattr(model, "config", None)
    saved = saved_processor(config)
    values = {} if saved is None else stated(saved)
    side = values.pop("side", DataConfig.input_size[1:])
    size = getattr(config, "image_size", None)
    if size is not None:
        side = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    channels = getattr(config, "num_channels", None) or image_channels(model)
    return _completed({**values, "input_size": (int(channels), *side)}, "its image processor")


def _completed(values: dict[str, Any], said_by: SaidBy) -> DataConfig:
    """The configuration of these values, whose constants `said_by` has stated, if they are there and fit."""
    channels = values["input_size"][0]
    for what in ("mean", "std"):
        numbers = _as_numbers(values.get(what, ()))
        if len(numbers) != channels and len(_one_number(numbers)) != 1:
            said_by = "nobody"
    return DataConfig(**{**values, "said_by": said_by})


def _declared(config: DataConfig, given: Mapping[str, tuple[float, ...]]) -> DataConfig:
    """With what the user says; of the two constants one alone counts only if somebody has said the other."""
    channels = config.input_size[0]
    for what, numbers in given.items():
        if len(numbers) not in (1, channels):
            raise BadData(
                f"{what} has {len(numbers)} numbers and the model takes images of {channels} channels; expected one "
                "number per channel, or one"
            )
    known = len(given) == 2 or config.said_by != "nobody"
    changes: dict[str, Any] = dict(given)
    return replace(config, **changes, said_by="the user" if known else "nobody")


def image_channels(model: nn.Module) -> int:
    """Channels of the images of a model that does not say: its first convolution's, else as many as have a mean."""
    first = next((module for module in model.modules() if isinstance(module, nn.Conv2d)), None)
    if first is not None and first.in_channels in CHANNELS:
        return first.in_channels
    said = interface_of(model)
    declared = max(len(said.mean or ()), len(said.std or ()))
    return declared if declared > 1 else 3


def _first_channels(model: nn.Module, config: Any, default: int) -> int:
    """Input channels of the first convolution: `in_chans=` at creation leaves the config as it was."""
    path = _entry(config, "first_conv")
    if isinstance(path, tuple | list):
        path = path[0] if path else None
    said = isinstance(path, str)
    try:
        return int(getattr(model.get_submodule(path), "in_channels", default)) if said else default
    except AttributeError:
        return default


def _per_channel(values: Any, channels: int, what: str) -> tuple[float, ...]:
    numbers = _as_numbers(values)
    if len(numbers) == channels:
        return numbers
    if len(numbers) == 1:
        return numbers * channels
    average = (sum(numbers) / len(numbers),) if numbers else ()
    if len(numbers) == 3:
        return numbers + average * (channels - 3) if channels > 3 else average * channels
    if channels == 1 and average:
        return average
    raise BadData(
        f"{what} has {len(numbers)} numbers for {channels} channels; expected one per channel, or one"
    )


def _one_number(numbers: Sequence[float]) -> tuple[float, ...]:
    """A single number if all are the same, else all of them."""
    return tuple(numbers[:1]) if len(set(numbers)) == 1 else tuple(numbers)


def _as_numbers(values: Any) -> tuple[float, ...]:
    return (float(values),) if isinstance(values, int | float) else tuple(float(value) for value in values)
