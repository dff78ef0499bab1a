"""What operations take besides the arguments that all of vitscope knows (`vitscope.core.arguments`)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from torch import Tensor

from vitscope.core.arguments import Range, Refine

_LONGEST_SIDE = 16_384


def _problem_with_layers(layers: Any) -> str | None:
    if isinstance(layers, str) and layers.strip().lstrip("-").isdigit():
        return f"a position stands in a list, as in [{layers.strip()}]"
    return "it is empty" if layers == "" else None


def _problem_with_example(example: Any) -> str | None:
    """What no example can be; what is in data shows when it is read."""
    if isinstance(example, Mapping):
        names = (name for name in example if not isinstance(name, str))
        return next((f"{name!r} is no argument's name" for name in names), None)
    if isinstance(example, str | bytes | bool | int | float):
        return "_"
    if isinstance(example, Tensor) or not isinstance(example, tuple | list):
        return None
    numbers = [n for n in example if isinstance(n, int | float)]
    if len(numbers) < len(example):  # a batch and its labels, or images
        return None
    if len(example) != 3:
        return f"{len(example)} numbers"
    wrong = [
        n for n in numbers if not isinstance(n, int) or isinstance(n, bool) or not 0 < n <= _LONGEST_SIDE
    ]
    return f"{wrong[0]} in it" if wrong else None


Layers = Annotated[
    str | Sequence[int | str],
    Refine(
        _problem_with_layers,
        "all, upper, lower, the name of a unit or a pattern, or a list of names, patterns and positions",
    ),
]
Example = Annotated[
    Any, Refine(_problem_with_example, "a batch of images, a shape (channels, height, width), or data")
]
Heads = Annotated[int, Range(1, 4096)]
Frames = Annotated[int, Range(0, 10_000)]
Passes = Annotated[int, Range(1, 100_000)]
DropRate = Annotated[float, Range(0, 1, above=True, below=True)]
