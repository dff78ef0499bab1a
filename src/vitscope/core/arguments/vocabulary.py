"""The kinds of arguments that vitscope takes, as types: what is allowed stands in the signature, and nowhere else.

    def smooth(model: nn.Module, temperature: Positive = 10.0): ...

The command line, YAML files, recipes, operations and exams use the same types, so that a value is refused in the same
words wherever it comes from, before any work begins. torch is imported only to look at a device's name.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

_FAR = 10_000


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, without `low` itself if `above`, without `high` itself if `below`."""

    low: float | None = None
    high: float | None = None
    above: bool = False
    below: bool = False

    def holds(self, number: float) -> bool:
        """Whether the number lies in it."""
        if self.low is not None and (number <= self.low if self.above else number < self.low):
            return False
        return self.high is None or (number < self.high if self.below else number <= self.high)

    def words(self, value: Any = None) -> str:
        """The bounds; an upper one that is there against slips of the keyboard is said only to who passes it."""
        said = isinstance(value, int | float) and self.high is not None and self.high < value < inf
        high = None if self.high is None or (self.high >= _FAR and not said) else _plain(self.high)
        low = None if self.low is None else _plain(self.low)
        if low is not None and high is not None and not (self.above or self.below):
            return f" from {low} to {high}"
        above = f"more than {low}" if self.above else f"{low} or more"
        below = f"less than {high}" if self.below else f"at most {high}"
        ends = [words for words, end in ((above, low), (below, high)) if end is not None]
        return f", {' and '.join(ends)}" if ends else ""


def _plain(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


@dataclass(frozen=True)
class Refine:
    """A further condition: `problem` says what is wrong with a value, or None, `expected` what would be right."""

    problem: Callable[[Any], str | None]
    expected: str


@dataclass(frozen=True)
class FieldsOf:
    """On an argument: it stands for the fields of this dataclass; on `**changes`: they are some of them."""

    kind: type
    but: tuple[str, ...] = ()  # fields that callers do not give


def _device_problem(name: Any) -> str | None:
    """What is wrong with a device's name, or None if it can be computed on, here and now."""
    import torch

    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError):
        return "torch knows no such device"
    if device.type == "cpu":
        return None if device.index in (None, 0) else "there is one CPU only: cpu"
    if device.type == "meta":
        return "tensors on it have no values"
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            return "no CUDA device was found"
        return None if (device.index or 0) < count else f"there are {count}: cuda:0 to cuda:{count - 1}"
    try:
        torch.zeros(1, device=device).add_(1)
    except (RuntimeError, NotImplementedError, AssertionError, ImportError):
        return "it cannot be used on this machine"
    return None


Count = Annotated[int, Range(1, 1_000_000_000)]
CountFromZero = Annotated[int, Range(0, 1_000_000_000)]
BatchSize = Annotated[int, Range(1, 1_000_000)]
Epochs = Annotated[int, Range(1, 1_000_000)]
Side = Annotated[int, Range(1, 16_384)]
Classes = Annotated[int, Range(1, 10_000_000)]
SeedCount = Annotated[int, Range(1, 10_000)]  # how many; each is a training of every arm
Seed = Annotated[int, Range(0, 2**32 - 1)]
Workers = Annotated[int, Range(0, 16 * (os.cpu_count() or 1))]
Port = Annotated[int, Range(0, 65_535)]

Number = Annotated[float, Range()]
Share = Annotated[float, Range(0, 1)]
Probability = Annotated[float, Range(0, 1, below=True)]
Fraction = Annotated[float, Range(0, 1, above=True)]
Decay = Annotated[float, Range(0, 1, above=True, below=True)]  # at 1 an average would never move
Positive = Annotated[float, Range(0, 1e6, above=True)]
NotNegative = Annotated[float, Range(0, 1e6)]
LearningRate = Annotated[float, Range(0, 1e4, above=True)]
Minutes = Annotated[float, Range(0, 60 * 24 * 365, above=True)]


def _address_problem(text: str) -> str | None:
    scheme = text.partition(":")[0] if ":" in text.partition("/")[0] else ""
    return None if scheme in ("", "http", "https", "file") else f"{scheme}: is no place for pages"


def _colour_problem(name: str) -> str | None:
    from matplotlib.colors import is_color_like

    return None if is_color_like(name) else "it is no colour"


Address = Annotated[str, Refine(_address_problem, "an address such as https://..., or a folder")]
RunFolder = Annotated[
    str | os.PathLike[str],
    Refine(lambda path: None, "a run folder, as vs.diagnose(model, data, out='runs/mine') writes it"),
]
ModelName = Annotated[str | os.PathLike[str], Refine(lambda name: None, "a model's name, or a run folder")]
Device = Annotated[str, Refine(_device_problem, "cpu, cuda, cuda:1, mps ... that this machine has")]
Colour = Annotated[str, Refine(_colour_problem, "a colour such as #2f7dc8 or black")]
NotEmpty = Refine(lambda many: None if len(many) else "it is empty", "one or more")  # on several values

# Arguments that mean the same wherever they occur: a plain `limit: int | None` is a `Count | None`.
BY_NAME: dict[str, Any] = {
    "limit": Count,
    "batch_size": BatchSize,
    "seed": Seed,
    "workers": Workers,
    "epochs": Epochs,
    "img_size": Side,
    "num_classes": Classes,
    "fraction": Fraction,
    "lr": LearningRate,
    "timeout_minutes": Minutes,
    "device": Device,
    "colour": Colour,
}

# Who takes an argument of this name, for those who give it to somebody else.
TAKEN_BY = {"limit": "exams take a limit, as in vs.diagnose(model, data, limit=100)"}
