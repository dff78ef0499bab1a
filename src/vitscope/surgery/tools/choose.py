"""Which units an operation is done to, and where in their branches; what its arguments may be, besides those that all
of vitscope knows (`vitscope.core.arguments`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Annotated, Any, Literal

from torch import Tensor

from vitscope.anatomy import Anatomy, Dissection, Unit
from vitscope.anatomy.taps.ports import Place, Port, branch_port
from vitscope.core.arguments import Range, Refine
from vitscope.core.errors import UnsupportedModel, alike, warn
from vitscope.surgery.tools.image_tokens import ImageTokens, image_tokens, tokens_off_the_grid
from vitscope.surgery.tools.map_source import MapNotes
from vitscope.surgery.tools.record import CannotOperate

HALVES = ("all", "upper", "lower")
Where = Literal["mlp", "msa", "both"]
KINDS: dict[str, tuple[str, ...]] = {"mlp": ("mlp",), "msa": ("msa",), "both": ("msa", "mlp")}
NO_TOKENS = "is not on the image's tokens"
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


def choose_units(
    parts: Anatomy, kinds: Sequence[str], layers: Layers = "all", fits: Callable[[Unit], bool] | None = None
) -> tuple[Unit, ...]:
    """The residual units of some kinds.

    Args:
        parts: The model's anatomy.
        kinds: "msa", "mlp", "conv" ...
        layers: "all", "upper" (the later half), "lower", a pattern of unit names ("blocks.1?.mlp"), or a list
            of unit names, patterns and positions among the units of these kinds (negative: from the end).
        fits: Whether the operation can go into a unit; "all" and halves are of those that it can go into.
    """
    units = tuple(unit for unit in parts.of_kind(*kinds) if unit.residual)
    if isinstance(layers, str):
        # half of the units of each kind: with MSA and MLP of 12 blocks both, the last 6 blocks
        if layers in HALVES:
            units = tuple(unit for unit in units if fits is None or fits(unit))
            halves = [_half([u for u in units if u.kind == kind], layers) for kind in dict.fromkeys(kinds)]
            chosen = {unit.name for half in halves for unit in half}
            return tuple(unit for unit in units if unit.name in chosen)
        layers = [layers]
    names = {name for wanted in layers for name in _names(parts, units, wanted, kinds)}
    return tuple(unit for unit in units if unit.name in names)


def by_name(layers: Layers) -> bool:
    """Whether units are asked for one by one, not as all or a half of them."""
    return not isinstance(layers, str) or layers not in HALVES


def asked_units(parts: Anatomy, kinds: Sequence[str], layers: Layers) -> tuple[Unit, ...]:
    """Those asked for by name, else all of these kinds: what fits among them is then chosen from."""
    return choose_units(parts, kinds, layers if by_name(layers) else "all")


def _half(units: list[Unit], which: str) -> list[Unit]:
    middle = len(units) // 2
    return {"all": units, "upper": units[middle:], "lower": units[:middle]}[which]


def _names(parts: Anatomy, units: tuple[Unit, ...], wanted: str | int, kinds: Sequence[str]) -> list[str]:
    if isinstance(wanted, int):
        if not -len(units) <= wanted < len(units):
            raise CannotOperate(
                f"{parts.model_name} has {len(units)} {'/'.join(kinds)} units; there is no number {wanted}"
            )
        return [units[wanted].name]
    found = [unit.name for unit in units if unit.name == wanted or fnmatch(unit.name, wanted)]
    if not found:
        others = ", ".join(unit.name for unit in units[:4])
        near = alike(wanted, HALVES)
        meant = f"did you mean '{near[0]}'? " if near else ""
        raise CannotOperate(
            f"{parts.model_name} has no {'/'.join(kinds)} unit '{wanted}'; {meant}it has {others or 'none'} ... "
            f"(vitscope anatomy lists them), and {', '.join(HALVES)} are words for several"
        )
    return found


@dataclass(frozen=True)
class BranchPlace:
    """A place in a unit's branch, and how the tokens lie there."""

    unit: Unit
    port: Port
    tokens: ImageTokens


def branch_places(
    body: Dissection,
    where: Where,
    at: Place,
    layers: Layers,
    pyramid: str | Sequence[str] = (),
    notes: MapNotes | None = None,
) -> list[BranchPlace]:
    """Places in the branches of the chosen units; a unit asked for by name that has none is refused.

    `pyramid` names units, or modules that hold them, to keep away from; `notes` are those of `image_tokens`.
    """
    feeding = _matching(body, pyramid)
    asked = asked_units(body.parts, KINDS[where], layers)
    out = {unit.name: NO_TOKENS for unit in asked if unit.name not in feeding and _no_tokens(body, unit, at)}
    units = choose_units(body.parts, KINDS[where], layers, lambda unit: unit.name not in out)
    out |= {unit.name: "feeds the pyramid" for unit in units if unit.name in feeding}
    if out and by_name(layers):
        name, why = next(iter(out.items()))
        raise CannotOperate(f"unit '{name}' {why}, so it is left alone; choose layers without it")
    if out:
        named = ", ".join(f"{name} ({why})" for name, why in out.items())
        warn(f"left out of layers='{layers}': {named}")
    chosen = [unit for unit in units if unit.name not in out]
    return [_place(body, unit, branch_port(body, unit, at), at, notes) for unit in chosen]


def _no_tokens(body: Dissection, unit: Unit, at: Place) -> bool:
    """The unit works on something else than the image's tokens: on the class token alone, say."""
    try:
        return image_tokens(body, branch_port(body, unit, at).node) is None
    except UnsupportedModel:  # no place in it, which is said if it is chosen
        return False


def no_units(where: Where, layers: Layers) -> str:
    """What to tell the user if there are no places."""
    kinds = "msa or mlp" if where == "both" else where
    return f"there is no {kinds} unit to put it into in layers={layers!r}"


def _matching(body: Dissection, patterns: str | Sequence[str]) -> set[str]:
    """Names of the units that a pattern names, or whose module lies in one it names."""
    found: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        here = {
            unit.name
            for unit in body.parts
            if any(fnmatch(path, pattern) for path in (unit.name, *_outwards(unit.module)))
        }
        if not here:
            raise CannotOperate(
                f"{body.parts.model_name} has no unit or block '{pattern}' that could feed a pyramid "
                "(vitscope anatomy lists them)"
            )
        found |= here
    return found


def _outwards(path: str) -> list[str]:
    """The module and those around it."""
    parts = path.split(".")
    return [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def _place(body: Dissection, unit: Unit, port: Port, at: Place, notes: MapNotes | None) -> BranchPlace:
    tokens = image_tokens(body, port.node, notes)
    assert tokens is not None  # those without were left out
    # more than the stream has: zeros around the map, which are nobody's tokens and would water down the mean
    if tokens_off_the_grid(body, port.node) > tokens_off_the_grid(body, body.segment(unit).end):
        raise CannotOperate(
            f"the map is padded at the {at} of unit '{unit.name}'; use at='end', "
            "or an image size that its windows divide"
        )
    return BranchPlace(unit, port, tokens)
