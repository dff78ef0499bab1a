"""The branches of a model that an operation puts something into: which units, and where in each.

The stochastic depth of a block, found by what its modules do: names differ from library to library.

A module that drops whole images with probability p and scales the others by 1 / (1 - p) gives, for a batch of ones in
training mode, images of zeros and images of 1 / (1 - p), and nothing else.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

import torch
from torch import nn

from vitscope.anatomy import Dissection, Unit
from vitscope.anatomy.taps.ports import Place, Port, branch_port
from vitscope.core.errors import UnsupportedModel, warn
from vitscope.surgery.tools.choose import HALVES, choose_units
from vitscope.surgery.tools.image_tokens import ImageTokens, image_tokens, tokens_off_the_grid
from vitscope.surgery.tools.map_source import MapNotes
from vitscope.surgery.tools.record import CannotOperate
from vitscope.surgery.tools.vocabulary import Layers

Where = Literal["mlp", "msa", "both"]
KINDS: dict[str, tuple[str, ...]] = {"mlp": ("mlp",), "msa": ("msa",), "both": ("msa", "mlp")}
NO_TOKENS = "is not on the image's tokens"


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
    """Places in the branches of the chosen units.

    Args:
        body: The model.
        where: Which kind of unit.
        at: Where in the branch.
        layers: As for `choose_units`.
        pyramid: Names or patterns of units, or of the modules that hold them, to keep away from.
        notes: As for `image_tokens`.

    Raises:
        CannotOperate: A unit asked for by name feeds the pyramid, or has no tokens of the image.
    """
    feeding = _matching(body, pyramid)
    halves = isinstance(layers, str) and layers in HALVES
    asked = choose_units(body.parts, KINDS[where], "all" if halves else layers)
    out = {unit.name: NO_TOKENS for unit in asked if unit.name not in feeding and _no_tokens(body, unit, at)}
    units = choose_units(body.parts, KINDS[where], layers, lambda unit: unit.name not in out)
    out |= {unit.name: "feeds the pyramid" for unit in units if unit.name in feeding}
    if out and not halves:
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


_PROBE = (256, 8, 4, 4)  # images, channels, height, width


def drop_probability(block: nn.Module) -> float:
    """The largest stochastic depth in a block, 0 where it has none."""
    leaves = [m for m in block.modules() if not [*m.children(), *m.parameters(), *m.buffers()]]
    return max((_probability(leaf) for leaf in leaves), default=0.0)


def _probability(leaf: nn.Module) -> float:
    probe = torch.ones(_PROBE, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        try:
            seen = copy.deepcopy(leaf).train()(probe)
        except Exception:  # it wants another input, so it is no step of a residual branch
            return 0.0
    if not isinstance(seen, torch.Tensor) or seen.shape != probe.shape:
        return 0.0
    images = seen.flatten(1)
    scale = float(images.max())
    whole = bool((images == images[:, :1]).all()) and bool(((images == 0) | (images == scale)).all())
    if not whole or scale <= 1:
        return 0.0
    return round(1 - 1 / scale, 6)
