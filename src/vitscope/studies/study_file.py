"""What a study's file says, as plain values of the right types; a refusal names the file and the place in it."""

from collections.abc import Mapping
from typing import Any

from vitscope.core.arguments import Count, Fraction, Probability, Seed, SeedCount, from_yaml
from vitscope.core.arguments.kinds import describe, shown
from vitscope.core.errors import BadArgument, did_you_mean

Named = Mapping[str, Any]
Operations = tuple[str | Named, ...]
Seeds = SeedCount | tuple[Seed, ...]

SHARED: dict[str, Any] = {  # what a study says for all its arms, and an arm for itself
    "data": str,
    "fraction": Fraction,
    "recipe": str,
    "changes": Named,
    "seeds": Seeds,
    "checkpoint_every": Count,
}
STUDY: dict[str, Any] = {
    "name": str,
    "question": str,
    **SHARED,
    "arms": Named,
    "exams": Named,
    "comparisons": tuple[Named, ...],
    "validation": Probability,
    "skip_broken": bool,
}
ARM: dict[str, Any] = {
    "model": str,
    "arguments": Named,
    "operations": Operations,
    **SHARED,
    "from": str,
    "train": bool,
}
LOOK: dict[str, Any] = {  # every other key is an option of the exam
    "exam": str,
    "split": str,
    "limit": Count | None,
    "batch_size": Count,
    "data": str,
    "labels": str,
    "classes": str,
    "arms": tuple[str, ...],
    "checkpoint": str,
}
COMPARISON: dict[str, Any] = {
    "name": str,
    "statement": str,
    "of": str,
    "against": str,
    "quantity": str,
    "rule": str,
    "contrast": Named,
    "slope": Named,
    "log": bool,
}


def check_study(content: Named, where: str) -> dict[str, Any]:
    """The keys of `STUDY` that the content has; arms, exams and comparisons are dicts of theirs."""
    checked = typed(content, STUDY, where)
    for key in ("name", "arms", "exams"):
        if not checked.get(key):
            raise BadArgument(f"{where} does not say '{key}'; {_EXAMPLES[key]}")
    checked["arms"] = {
        name: typed(given, ARM, f"{where}: arms.{name}", f"{name}: {{model: vit_mini}}")
        for name, given in checked["arms"].items()
    }
    checked["exams"] = {
        label: _look(given, f"{where}: exams.{label}", label) for label, given in checked["exams"].items()
    }
    checked["comparisons"] = [
        typed(given, COMPARISON, f"{where}: comparisons[{i}]")
        for i, given in enumerate(checked.get("comparisons", ()))
    ]
    return checked


_EXAMPLES = {
    "name": "add a line such as 'name: my-study'",
    "arms": "add what is compared: 'arms: {plain: {model: vit_mini}}'",
    "exams": "add what is measured: 'exams: {prediction: }'",
}


def typed(given: Any, hints: Mapping[str, Any], where: str, example: str = "key: value") -> dict[str, Any]:
    """The values of a mapping by their types; refuses what is no mapping, and names that are not known."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise BadArgument(f"{where} is {shown(given)}; expected '{example}'")
    for key in given:
        if key not in hints:
            raise BadArgument(f"{where}: no '{key}'; {did_you_mean(key, hints)}")
    return {key: _value(value, hints[key], f"{where}: {key}") for key, value in given.items()}


def _value(value: Any, hint: Any, where: str) -> Any:
    if value is None and type(None) not in getattr(hint, "__args__", ()):
        raise BadArgument(f"{where} is empty; expected {describe(hint)}, or leave the line out")
    return from_yaml(value, hint, where)


def _look(given: Any, where: str, label: str) -> dict[str, Any]:
    """What an exam is asked for, with the exam's own options under "options"."""
    said = {} if given is None else given
    if not isinstance(said, Mapping) or not all(isinstance(key, str) for key in said):
        raise BadArgument(
            f"{where} is {shown(given)}; expected nothing, or options: '{label}: {{limit: 500}}'"
        )
    ours = typed({key: value for key, value in said.items() if key in LOOK}, LOOK, where)
    return {**ours, "options": {key: value for key, value in said.items() if key not in LOOK}}
