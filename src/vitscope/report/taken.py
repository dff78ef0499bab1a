"""Which map after a unit was measured, where an activation follows the unit's addition."""

from collections.abc import Sequence

from vitscope.results import Result, UnitRow


def taken(results: Sequence[tuple[str, Result]]) -> list[str]:
    """A sentence for each way in which the maps of some models were taken; `results` are by model."""
    models: dict[str, list[str]] = {}
    for model, result in results:
        units: tuple[UnitRow, ...] = getattr(result, "units", ())
        for way in dict.fromkeys(unit.taken for unit in units if unit.taken):
            models.setdefault(way, []).append(model)
    return [f"{', '.join(names)}: {_in_words(way)}." for way, names in models.items()]


def _in_words(way: str) -> str:
    side, activation = way.split(" ", 1)
    if side == "after":
        return f"the map after a unit is what the next unit reads, after the {activation} that follows the addition"
    return f'the map after a unit is the sum, before the {activation} that follows it (`stream="sum"`)'
