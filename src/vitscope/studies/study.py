"""What a study is: arms that are trained with several seeds, exams of the trained models, comparisons with a rule.

    study = Study.read("cb.yaml")
    study.arm("broadcast").operations

Everything is said before anything runs, and a comparison's rule with it. No torch is needed to read a study; whether
models, recipes, operations and options fit together is looked at by `studies.graph`, before the first job begins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vitscope.core.arguments import Probability, names_checked
from vitscope.core.arguments.yaml_files import read_yaml
from vitscope.core.errors import BadArgument, did_you_mean
from vitscope.studies.design import (
    TRAINING,
    VALIDATION,
    Arm,
    Comparison,
    Look,
    check_word,
    read_rule,
    refuse_twice,
)
from vitscope.studies.study_file import SHARED, check_study

__all__ = ["Arm", "Comparison", "Look", "Study"]


@names_checked
@dataclass(frozen=True)
class Study:
    """A question, and all that answers it.

    Attributes:
        name: Also of the folder that its tables go into.
        question: In words.
        arms: What is compared.
        looks: What is measured of every trained model.
        comparisons: What is decided, and how.
        validation: Share of the training images that nobody trains on: what is examined instead of the test images.
        skip_broken: Pass over image files that cannot be decoded.
    """

    name: str
    question: str
    arms: tuple[Arm, ...]
    looks: tuple[Look, ...]
    comparisons: tuple[Comparison, ...] = ()
    validation: Probability | None = None
    skip_broken: bool = False

    def __post_init__(self) -> None:
        check_word(self.name, "a study's name")
        for kind, found in (("arm", self.arms), ("exam", self.looks), ("comparison", self.comparisons)):
            refuse_twice((one.label if isinstance(one, Look) else one.name for one in found), kind)
        if not self.arms or not self.looks:
            raise BadArgument(
                f"study {self.name} has no {'exams' if self.arms else 'arms'}; name at least one"
            )
        if self.validation is not None and not 0 < self.validation < 1:
            raise BadArgument(
                f"validation is {self.validation}; expected a share between 0 and 1, such as 0.2"
            )
        for arm in self.arms:
            self._check_start(arm)
        for look in self.looks:
            self._check_look(look)
        for comparison in self.comparisons:
            self._check_comparison(comparison)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Study:
        """The study in a YAML file."""
        where = os.fspath(path)
        return Study.from_plain(read_yaml(path, f"the study {where}", "name: my-study"), where)

    @staticmethod
    def from_plain(content: Mapping[str, Any], where: str) -> Study:
        """A study from what a file would say; errors begin with `where`."""
        said = check_study(content, where)
        try:
            return _from_file(said)
        except BadArgument as error:
            raise BadArgument(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Everything in it, as plain values; equal studies give equal ones."""
        said = asdict(self)
        if not self.skip_broken:  # as studies were written before there was a choice
            del said["skip_broken"]
        return said

    def arm(self, name: str) -> Arm:
        """The arm of this name."""
        return {arm.name: arm for arm in self.arms}[self._known_arm(name, "there")]

    @property
    def compared(self) -> set[str]:
        """Names of the arms that a comparison is about."""
        return {name for one in self.comparisons for name in one.arms}

    def looks_at(self, arm: str) -> tuple[Look, ...]:
        """The exams that this arm goes through."""
        return tuple(look for look in self.looks if not look.arms or arm in look.arms)

    def with_seeds(self, number: int) -> Study:
        """The same with the first `number` seeds of every arm, or with so many from 0 on if it has fewer."""
        arms = (replace(arm, seeds=_first(arm.seeds, number)) for arm in self.arms)
        return replace(self, arms=tuple(arms))

    def only(self, names: Sequence[str]) -> Study:
        """The same with these arms, those that they start from, and the comparisons that are left."""
        wanted = {self._known_arm(name, "only") for name in names}
        while more := {arm.start for arm in self.arms if arm.name in wanted and arm.start} - wanted:
            wanted |= more
        looks = (
            replace(look, arms=tuple(arm for arm in look.arms if arm in wanted))
            for look in self.looks
            if not look.arms or wanted & set(look.arms)
        )
        return replace(
            self,
            arms=tuple(arm for arm in self.arms if arm.name in wanted),
            looks=tuple(looks),
            comparisons=tuple(one for one in self.comparisons if set(one.arms) <= wanted),
        )

    def _known_arm(self, name: str, where: str) -> str:
        names = [arm.name for arm in self.arms]
        if name not in names:
            raise BadArgument(f"{where}: no arm '{name}'; {did_you_mean(name, names)}")
        return name

    def _check_start(self, arm: Arm) -> None:
        """Refuse a start that is no arm, leads around in a circle, or is not trained with these seeds."""
        way = [arm.name]
        while (start := self.arm(way[-1]).start) is not None:
            self._known_arm(start, f"arm {way[-1]}: from")
            if start in way:
                raise BadArgument(f"arm {arm.name} starts from itself: {' from '.join([*way, start])}")
            way.append(start)
        if len(way) > 1 and (lacking := [s for s in arm.seeds if s not in self.arm(way[1]).seeds]):
            raise BadArgument(
                f"arm {arm.name}: seed {lacking[0]}, with which {way[1]} is not trained; it has "
                f"{', '.join(map(str, self.arm(way[1]).seeds))}"
            )

    def _check_look(self, look: Look) -> None:
        for name in look.arms:
            self._known_arm(name, f"exam {look.label}: arms")
        if look.split == VALIDATION and self.validation is None:
            raise BadArgument(
                f"exam {look.label}: split is {VALIDATION}, but no training images are held out; "
                "add a line such as 'validation: 0.2', or take another split"
            )

    def _check_comparison(self, one: Comparison) -> None:
        where = f"comparison {one.name}"
        known = [*(look.label for look in self.looks), TRAINING]
        for label in one.labels:
            if label not in known:
                raise BadArgument(
                    f"{where}: quantity is '{one.quantity}' and no exam is labelled '{label}'; "
                    f"{did_you_mean(label, known)}"
                )
        for key, name in one.named_arms:
            self._known_arm(name, f"{where}: {key}")
            looked_at = [look.label for look in self.looks_at(name)]
            for label in one.labels:
                if label not in (TRAINING, *looked_at):
                    raise BadArgument(
                        f"{where}: exam {label} does not look at arm {name}; add it to the exam's arms"
                    )
        if one.of and one.against == one.of:
            raise BadArgument(
                f"{where}: {one.of} is compared with itself; name another arm, or leave 'against' out"
            )


def _from_file(said: Mapping[str, Any]) -> Study:
    shared = {key: said[key] for key in SHARED if key in said}
    arms: dict[str, Arm] = {}
    waiting = dict(said["arms"])
    while waiting:  # an arm takes from the one that it starts from what it does not say itself
        ready = [name for name, given in waiting.items() if given.get("from") not in waiting]
        for name in ready or waiting:
            given = waiting.pop(name)
            if not ready:
                raise BadArgument(f"arm {name} starts from itself, by way of {given['from']}")
            start = arms.get(given["from"]) if "from" in given else None
            if "from" in given and start is None:
                raise BadArgument(
                    f"arm {name}: from: no arm '{given['from']}'; {did_you_mean(given['from'], said['arms'])}"
                )
            arms[name] = _arm(name, given, shared, start)
    split = VALIDATION if said.get("validation") else "test"
    looks = [Look(label, **{"split": split, **given}) for label, given in said["exams"].items()]
    return Study(
        said["name"],
        said.get("question", ""),
        tuple(arms[name] for name in said["arms"]),
        tuple(looks),
        tuple(_comparison(i, given) for i, given in enumerate(said["comparisons"])),
        said.get("validation"),
        said.get("skip_broken", False),
    )


def _arm(name: str, given: Mapping[str, Any], shared: Mapping[str, Any], start: Arm | None) -> Arm:
    settings = {key: value for key, value in given.items() if key != "from"}
    base = dict(shared)
    if start is not None:
        for key in ("model", "arguments"):
            if key in given:
                raise BadArgument(f"arm {name}: it has '{key}' and 'from'; its model is that of {start.name}")
        base = {key: getattr(start, key) for key in (*SHARED, "model", "arguments")}
    elif "model" not in given:
        raise BadArgument(
            f"arm {name}: no model; add 'model: vit_mini', or the arm it starts from: 'from: ARM'"
        )
    settings["changes"] = {**base.get("changes", {}), **given.get("changes", {})}
    seeds = settings.get("seeds", base.get("seeds", 3))
    settings["seeds"] = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    return Arm(name, **{**base, **settings}, start=None if start is None else start.name)


def _comparison(number: int, given: Mapping[str, Any]) -> Comparison:
    where = f"comparisons[{number}]"
    for key in ("quantity", "rule"):
        if key not in given:
            raise BadArgument(
                f"{where}: no '{key}'; expected of, quantity, rule, and against for a difference"
            )
    several = {key: given[key] for key in ("contrast", "slope", "log") if key in given}
    for key in ("contrast", "slope"):
        for arm, number_of in several.get(key, {}).items():
            numeric = isinstance(number_of, int | float) and not isinstance(number_of, bool)
            if not numeric and not (key == "slope" and isinstance(number_of, str)):
                raise BadArgument(f"{where}: {key} of {arm} is {number_of!r}; expected a number")
    rule = read_rule(given["rule"], where)
    asked = Comparison("?", "?", given.get("of"), given.get("against"), given["quantity"], rule, **several)
    what = f"{asked.quantity}: {asked.subject}"
    name = given.get("name") or what + (f" - {asked.against}" if asked.against else "")
    told = f"{asked.quantity} of {asked.subject}" + (
        f" minus that of {asked.against}" if asked.against else ""
    )
    return replace(asked, name=name, statement=given.get("statement") or f"{told} is {given['rule'].strip()}")


def _first(seeds: Sequence[int], number: int) -> tuple[int, ...]:
    if number <= len(seeds):
        return tuple(seeds[:number])
    unused = (seed for seed in range(number + len(seeds)) if seed not in seeds)
    return (*seeds, *(seed for seed, _ in zip(unused, range(number - len(seeds)), strict=False)))
