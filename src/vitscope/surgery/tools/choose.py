"""Which units an operation is done to."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatch

from vitscope.anatomy import Anatomy, Unit
from vitscope.surgery.tools.record import CannotOperate
from vitscope.surgery.tools.vocabulary import Layers

HALVES = ("all", "upper", "lower")


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
    names: dict[str, None] = {}
    for wanted in layers:
        names.update(dict.fromkeys(_named(parts, units, wanted, kinds)))
    return tuple(unit for unit in units if unit.name in names)


def _half(units: list[Unit], which: str) -> list[Unit]:
    middle = len(units) // 2
    return {"all": units, "upper": units[middle:], "lower": units[:middle]}[which]


def _named(parts: Anatomy, units: tuple[Unit, ...], wanted: str | int, kinds: Sequence[str]) -> list[str]:
    if isinstance(wanted, int):
        if not -len(units) <= wanted < len(units):
            raise CannotOperate(
                f"{parts.model_name} has {len(units)} {'/'.join(kinds)} units; there is no number {wanted}"
            )
        return [units[wanted].name]
    found = [unit.name for unit in units if unit.name == wanted or fnmatch(unit.name, wanted)]
    if not found:
        others = ", ".join(unit.name for unit in units[:4])
        raise CannotOperate(
            f"{parts.model_name} has no {'/'.join(kinds)} unit '{wanted}'; it has {others or 'none'} ... "
            "(vitscope anatomy lists them)"
        )
    return found
