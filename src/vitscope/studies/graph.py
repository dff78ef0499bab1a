"""The jobs of a study: trainings, operations and exams, each known by what it depends on.

Jobs are asked for as `make` does: an exam whose result is in the store asks for nothing, one that is missing asks for
its model, and only a model that is not there is trained.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vitscope.data import ImageData
from vitscope.data.fetchers import require_labels
from vitscope.findings import Result
from vitscope.studies.design import Arm
from vitscope.studies.job import Job
from vitscope.studies.known_quantities import check_quantities
from vitscope.studies.resolve import (
    OpenedImages,
    ResolvedArm,
    ResolvedLook,
    as_plain,
    broken_said,
    errors_about,
    learned_part,
    part_of,
    plain,
)
from vitscope.studies.store import Kind, Store, key_of
from vitscope.studies.study import Study

_WORK = "vitscope.studies.work:"
_FUNCTIONS: Mapping[Kind, str] = {
    "train": _WORK + "train_arm",
    "operate": _WORK + "operate_arm",
    "examine": _WORK + "examine",
}


@dataclass(frozen=True)
class Node:
    """A job, and what has to be done before it."""

    kind: Kind
    key: str
    job: Job
    arm: str
    seed: int
    needs: tuple[str, ...] = ()  # keys of other jobs
    labels: tuple[str, ...] = ()  # of the exams in it
    images: int = 0  # that exams look at in one pass
    shares_a_pass: bool = False  # exams that need one pass, and no more
    study: str = ""  # whose arm it is, where jobs of several are done together

    @property
    def title(self) -> str:
        """What a line about it says."""
        what = {"train": "train", "operate": "operate on"}.get(self.kind) or "examine"
        whose = f"{self.study} {self.arm}" if self.study else self.arm
        which = f" ({', '.join(self.labels)})" if self.labels else ""
        return f"{what} {whose}, seed {self.seed}{which}"

    @property
    def makes(self) -> frozenset[str]:
        """Keys of the results that its exams leave."""
        return frozenset(look["key"] for look in self.job.arguments.get("looks", ()))


@dataclass
class Plan:
    """A study's jobs, and the keys of everything that it needs.

    Attributes:
        missing: Jobs that have to be done, by key, the most telling first.
        looks: Per arm, seed and label the key and the exam of a result.
        trainings: Per arm and seed the key of the training.
        untrained: Per arm and seed the job that left the model, where the arm itself is not trained.
    """

    study: Study
    store: Store
    arms: Mapping[str, ResolvedArm]
    missing: dict[str, Node] = field(default_factory=dict)
    looks: dict[tuple[str, int, str], tuple[str, str]] = field(default_factory=dict)
    trainings: dict[tuple[str, int], str] = field(default_factory=dict)
    untrained: dict[tuple[str, int], tuple[Kind, str]] = field(default_factory=dict)

    def of(self, study: Study) -> "Plan":
        """The part of it that the same study needs with fewer seeds."""
        places = {(arm.name, seed) for arm in study.arms for seed in arm.seeds}
        return replace(
            self,
            study=study,
            missing={key: node for key, node in self.missing.items() if (node.arm, node.seed) in places},
            looks={look: found for look, found in self.looks.items() if look[:2] in places},
            trainings={place: key for place, key in self.trainings.items() if place in places},
            untrained={place: job for place, job in self.untrained.items() if place in places},
        )

    def results(self) -> dict[tuple[str, int], dict[str, Result]]:
        """What is in the store of the study's results: per arm and seed, by label."""
        found: dict[tuple[str, int], dict[str, Result]] = {}
        for (arm, seed, label), (key, exam) in self.looks.items():
            if self.store.has_result(key, exam):
                found.setdefault((arm, seed), {})[label] = self.store.result(key, exam)
        return found

    def training(self) -> dict[tuple[str, int], dict[str, Any]]:
        """How the trainings went that are done: the last row of each with its seconds and parameters, and all rows.

        Of models that were only operated on the parameters.
        """
        sizes = {place: self.store.parameters(*job) for place, job in self.untrained.items()}
        counted = {place: {"parameters": size} for place, size in sizes.items() if size is not None}
        return counted | {
            place: self.store.training(key)
            for place, key in self.trainings.items()
            if self.store.has_training(key)
        }


def pass_key(looks: Iterable[str]) -> str:
    """The key of the job that does these exams together."""
    return key_of({"job": "examine", "looks": sorted(looks)})


def plan_study(
    study: Study,
    store: Store,
    file: str | os.PathLike[str] | None = None,
    trust_code: bool = False,
    images: OpenedImages | None = None,
) -> Plan:
    """The jobs of a study, most telling first; refuses what does not fit together.

    Args:
        study: What is asked.
        store: Where results are looked for, and go to.
        file: The file that the study stands in, if it does.
        trust_code: Run code that the file names.
        images: Where they are opened; default: anew.
    """
    check_quantities(study)
    named = None if file is None else os.fspath(file)
    return _Planner(study, store, named, trust_code, images or OpenedImages()).plan()


@dataclass(frozen=True)
class _Made:
    """A model of a study: how jobs make it, what tells it from others, and the job that it comes from."""

    arguments: dict[str, Any]
    identity: Any
    node: Node | None = None


class _Planner:
    def __init__(
        self, study: Study, store: Store, file: str | None, trust_code: bool, images: OpenedImages
    ) -> None:
        self.study, self.store = study, store
        self.arms = {arm.name: ResolvedArm(arm, file, trust_code) for arm in study.arms}
        self.images = images
        self.nodes: dict[str, Node] = {}  # of models, whether they are there or not
        self.made: dict[tuple[str, int], _Made] = {}
        self.result = Plan(study, store, self.arms)

    def plan(self) -> Plan:
        for arm, seed in self._places():
            self._add(arm, seed)
        return self.result

    def _places(self) -> Iterator[tuple[Arm, int]]:
        """Arms and seeds in the order of what they tell: the first seed of all arms, then the second, and so on."""
        compared = self.study.compared
        arms = sorted(self.study.arms, key=lambda arm: arm.name not in compared)
        for number in range(max(len(arm.seeds) for arm in arms)):
            for arm in arms:
                if number < len(arm.seeds):
                    yield arm, arm.seeds[number]

    def _add(self, arm: Arm, seed: int) -> None:
        made = self._model(arm, seed)
        if arm.train and made.node is not None:
            self.result.trainings[arm.name, seed] = made.node.key
            if not self.store.has_training(made.node.key):
                self._ask(made.node)
        elif made.node is not None:
            self.result.untrained[arm.name, seed] = made.node.kind, made.node.key
        asked: dict[Any, list[tuple[ResolvedLook, str]]] = {}
        times: dict[Any, int] = {}  # that an exam was met for the same images: a pass can do it once
        for look in self.study.looks_at(arm.name):
            resolved = ResolvedLook(look, self.arms[arm.name])
            part = part_of(look, arm, self.study)
            with errors_about(f"exam {look.label}"):
                identity = self.images.identity(part)
            content = {
                **{"job": "exam", "model": made.identity, "exam": look.exam, "images": identity},
                **{"version": resolved.exam.result.version, "settings": resolved.settings},
                **{**as_plain(part), "data": None, "limit": look.limit, "batch_size": look.batch_size},
            }
            if look.checkpoint is not None:
                content["checkpoint"] = look.checkpoint
            key = key_of(content)
            self.result.looks[arm.name, seed, look.label] = (key, look.exam)
            if not self.store.has_result(key, look.exam):
                place: Any = (part, look.limit, look.batch_size, look.checkpoint)
                number = times[place, look.exam] = times.get((place, look.exam), -1) + 1
                together = (place, number) if resolved.shares_a_pass else key
                asked.setdefault(together, []).append((resolved, key))
        for group in asked.values():
            self._ask(self._examination(arm, seed, made, group))

    def _examination(self, arm: Arm, seed: int, made: _Made, group: list[tuple[ResolvedLook, str]]) -> Node:
        first = group[0][0].look
        first_part = part_of(first, arm, self.study)
        arguments = {
            "model": made.arguments,
            "seed": seed,
            "looks": [{"exam": one.look.exam, "options": one.options, "key": key} for one, key in group],
            "limit": first.limit,
            "batch_size": first.batch_size,
            **as_plain(first_part),
            **broken_said(first_part),
        }
        if first.checkpoint is not None:
            arguments["checkpoint"] = first.checkpoint
        key = pass_key([key for _, key in group])
        needs = (made.node.key,) if made.node is not None else ()
        labels = tuple(one.look.label for one, _ in group)
        opened = self.images.open(first_part)
        for one, _ in group:
            if isinstance(opened, ImageData) and one.exam.needs_labels:
                with errors_about(f"exam {one.look.label}"):
                    require_labels(opened, one.look.exam)
        there = len(opened)
        images = min(there, first.limit or there)
        shared = group[0][0].shares_a_pass
        return self._node("examine", key, arguments, arm, seed, needs, labels, images, shared)

    def _model(self, arm: Arm, seed: int) -> _Made:
        if (arm.name, seed) not in self.made:
            self.made[arm.name, seed] = self._find_model(arm, seed)
        return self.made[arm.name, seed]

    def _find_model(self, arm: Arm, seed: int) -> _Made:
        """The model of an arm: trained, operated on, or taken as it comes."""
        resolved = self.arms[arm.name]
        needs: tuple[str, ...] = ()
        if arm.start is not None:
            start = self._model(self.study.arm(arm.start), seed)
            model, identity = start.arguments, start.identity
            needs = (start.node.key,) if start.node is not None else ()
            if not arm.train and not resolved.operations:
                return start
        else:
            model = {"name": arm.model, "arguments": resolved.arguments, "trust_code": resolved.trusted}
            identity = {"name": arm.model, "arguments": resolved.arguments, "weights": resolved.weights}
            if not arm.train and not resolved.operations:
                return _Made(model, {**identity, "seed": seed})
        content = {"model": identity, "operations": resolved.operations, "seed": seed}
        arguments: dict[str, Any] = {"model": model, "operations": resolved.operations, "seed": seed}
        kind: Kind = "operate"
        if arm.train:
            kind = "train"
            part = learned_part(arm, self.study)
            with errors_about(f"arm {arm.name}"):
                content["images"] = self.images.identity(part)
            shared = {
                "recipe": resolved.choices,
                "fraction": arm.fraction,
                "validation": self.study.validation,
            }
            if arm.checkpoint_every is not None:
                shared["checkpoint_every"] = arm.checkpoint_every
            content |= shared
            arguments |= {**shared, **broken_said(part), "data": arm.data}
        key = key_of({"job": kind, **content})
        node = self._node(kind, key, arguments, arm, seed, needs)
        self.nodes[key] = node
        trusted = {"trust_code": resolved.trusted} if resolved.trusted else {}
        return _Made({"name": arm.model, "from": kind, "key": key, **trusted}, {kind: key}, node)

    def _node(self, kind: Kind, key: str, arguments: dict[str, Any], arm: Arm, seed: int, *rest: Any) -> Node:
        job = Job(_FUNCTIONS[kind], plain(arguments), self.store.job_folder(kind, key))
        return Node(kind, key, job, arm.name, seed, *rest)

    def _ask(self, node: Node) -> None:
        """Put a job on the list, and before it those of its models that are not there."""
        for need in node.needs:
            if not self.store.has_model(self.nodes[need].kind, need):
                self._ask(self.nodes[need])
        self.result.missing.setdefault(node.key, node)
