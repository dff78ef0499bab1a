"""Which units an operation is done to.

How many MSA blocks each stage gets: three rules.

msa=(0, 1, 1, 2)    these counts
budget=4            one at the end of each stage, from the last stage backwards, then another round, until 4 are
                    placed or nothing is left: the closed form of the build-up rule
last=4              alternately from the end of the network: all that fits into the last stage, then the one before
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatch

from vitscope.anatomy import Anatomy, Unit
from vitscope.anatomy.structure.dissect import Dissection
from vitscope.surgery.tools.record import CannotOperate
from vitscope.surgery.tools.replaceable import ConvStage
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


SMALL_DATA, LARGE_DATA = 4, 6  # MSAs for up to 50 thousand images, for a million and more
LARGE_HEAD = 1000  # classes of a model that is taken to be made for large data


def msa_counts(
    body: Dissection,
    stages: Sequence[ConvStage],
    msa: Sequence[int] | None = None,
    budget: int | None = None,
    last: int | None = None,
) -> list[int]:
    """Counts per stage by the rule that is given; without one, `budget` by the number of classes.

    Raises:
        CannotOperate: More is asked than there is room for, or by two rules.
    """
    check_rules(msa, budget, last)
    name, room = body.parts.model_name, tuple(len(stage.replaceable) for stage in stages)
    if msa is not None:
        _check_room(name, stages, msa, room)
        return [int(count) for count in msa]
    if last is None:
        classes = body.graph[body.graph.outputs[0]].shape[-1]
        return closed_form(room, budget or (LARGE_DATA if classes >= LARGE_HEAD else SMALL_DATA))
    if last > sum(room):
        raise CannotOperate(
            f"{name} has {sum(room)} blocks that can be replaced alternately, {last} asked; "
            f"try last={sum(room)}, or extra_block=True"
        )
    return from_the_end(room, last)


def closed_form(room: Sequence[int], budget: int) -> list[int]:
    """One for each stage from the last to the first, then another round, up to `budget` in all."""
    counts = [0] * len(room)
    for _ in range(max(room)):
        for stage in reversed(range(len(room))):
            if sum(counts) < budget and counts[stage] < room[stage]:
                counts[stage] += 1
    return counts


def from_the_end(room: Sequence[int], number: int) -> list[int]:
    """The last stage filled first, then the one before it."""
    counts = [0] * len(room)
    for stage in reversed(range(len(room))):
        counts[stage] = min(room[stage], number - sum(counts))
    return counts


def check_rules(msa: Sequence[int] | None, budget: int | None, last: int | None) -> None:
    """Refuse two rules at once."""
    given = [name for name, value in (("msa", msa), ("budget", budget), ("last", last)) if value is not None]
    if len(given) > 1:
        raise CannotOperate(f"{' and '.join(given)} are different rules; give one of them")


def _check_room(name: str, stages: Sequence[ConvStage], msa: Sequence[int], room: tuple[int, ...]) -> None:
    if len(msa) != len(stages):
        raise CannotOperate(
            f"msa={tuple(msa)} is for {len(msa)} stages; {name} has {len(stages)}, "
            f"in which at most {room} blocks can be replaced"
        )
    for stage, wanted, most in zip(stages, msa, room, strict=True):
        if not 0 <= wanted <= most:
            more = ", or extra_block=True for one block more" if stage is stages[-1] else ""
            raise CannotOperate(
                f"stage {stage.number} has {most} block{'s' * (most != 1)} that can be replaced, {wanted} asked: "
                f"of its {stage.blocks} the first stays, and so does one before each MSA; "
                f"give at most msa={room}{more}"
            )
