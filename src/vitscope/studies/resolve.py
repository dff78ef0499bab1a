"""What the words of a study stand for: recipes written out, operations and options by their types, images opened.

Everything that can be refused without building a model is refused here, before a job begins, by arm or exam.
"""

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import vitscope.exams  # noqa: F401 they are found by their names
from vitscope.core.arguments import from_yaml
from vitscope.core.arguments.calling import hints_of
from vitscope.core.errors import BadArgument, VitscopeError
from vitscope.data import ImageData
from vitscope.data.catalog import CATALOG
from vitscope.engine.cache_key import data_fingerprint
from vitscope.engine.choose_exams import find_exams, options_of, with_options
from vitscope.engine.exam import Exam
from vitscope.models.create import check_name
from vitscope.models.errors import UntrustedCode
from vitscope.models.trust import allow_data, allow_model, names_code
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.studies.design import OF_THE_ARM, VALIDATION, Arm, Look, Operation
from vitscope.studies.images import Open, Part, open_whole
from vitscope.studies.study import Study
from vitscope.surgery.tools.operate import find_operation, plan_operations
from vitscope.surgery.tools.record import OPERATIONS

_FILES = ("config.json", "model.safetensors")  # of a run folder: the model, and its weights
_CHOICES = ("pretrained", "checkpoint")  # of `create_model`, that whoever writes a study makes


@contextmanager
def errors_about(where: str) -> Iterator[None]:
    """Inside, errors begin with the place of the study that they are about."""
    try:
        yield
    except VitscopeError as error:
        kind = UntrustedCode if isinstance(error, UntrustedCode) else BadArgument
        raise kind(f"{where}: {error}") from error


def plain(value: Any) -> Any:
    """A value as JSON gives it back, so that a job is the same in this process and in another."""
    return json.loads(json.dumps(value, allow_nan=False))


def as_written(values: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values of a YAML file by their types, where 1e-3 is a number, too; unknown names are left to who takes them."""
    return {
        name: from_yaml(value, hints[name], f"{where}{name}") if name in hints else value
        for name, value in values.items()
    }


def _plans(said: Operation) -> list[tuple[str, dict[str, Any]]]:
    """An operation, or several in order, with their arguments."""
    if isinstance(said, str):
        return plan_operations(said)
    typed = {}
    for name, given in said.items():
        hints = hints_of(inspect.unwrap(OPERATIONS[find_operation(name)]))
        typed[name] = as_written(given, hints, f"{name}.") if isinstance(given, Mapping) else given
    return plan_operations(typed)


class ResolvedArm:
    """An arm with its words looked up.

    Args:
        arm: The arm.
        file: The file that it stands in, if it does: code that a file names has to be trusted.
        trust_code: Whether it is.
    """

    def __init__(self, arm: Arm, file: str | None, trust_code: bool) -> None:
        self.arm = arm
        with errors_about(f"arm {arm.name}"):
            changes = as_written(arm.changes, hints_of(Recipe), "changes.")
            emptied: dict[str, Any] = {key: None for key, value in changes.items() if value is None}
            self.recipe = replace(get_recipe(arm.recipe, **changes), **emptied)
            if self.recipe.distill is not None and arm.train:
                raise BadArgument(
                    f"recipe {arm.recipe} learns from a teacher, which an arm cannot have; take another"
                )
            self.operations = plain([plan for said in arm.operations for plan in _plans(said)])
            self.arguments = plain(dict(arm.arguments))
            self.trusted = self._is_trusted(file, trust_code)

    def _is_trusted(self, file: str | None, trust_code: bool) -> bool:
        """Whether there is code in it, which is trusted then; refuses what is not."""
        arm = self.arm
        if file is not None:
            given = {key: value for key, value in self.arguments.items() if key not in _CHOICES}
            allow_model(arm.model, given, file, trust_code)
            allow_data(arm.data, file, trust_code)
        if names_code(arm.model):  # which the user has named, or the file, and that is trusted
            return True
        try:
            check_name(arm.model, False)
        except UntrustedCode:
            check_name(arm.model, trust_code)
            return True
        return False

    @cached_property
    def choices(self) -> dict[str, Any]:
        """Every choice of the recipe; what it is called is none."""
        return {key: value for key, value in plain(self.recipe.to_dict()).items() if key != "name"}

    @cached_property
    def weights(self) -> str | None:
        """What the files of a model that lies in a run folder are, if it does."""
        files = [Path(self.arm.model, name) for name in _FILES]
        if ":" in self.arm.model or not all(file.is_file() for file in files):
            return None
        digest = hashlib.sha256()
        for file in files:
            digest.update(file.read_bytes())
        return digest.hexdigest()


class ResolvedLook:
    """An exam with the options that it has on one arm."""

    def __init__(self, look: Look, arm: ResolvedArm) -> None:
        self.look = look
        with errors_about(f"exam {look.label}"):
            found = find_exams([look.exam])
            options = as_written(look.options, options_of(found[0]), f"{look.exam}.")
            if options.get("recipe") == OF_THE_ARM:
                options["recipe"] = arm.recipe
            self.exam: Exam = with_options(found, {look.exam: options} if options else None)[0]
        self.options = plain({key: _written(value) for key, value in options.items()})

    @property
    def shares_a_pass(self) -> bool:
        """Whether others can be done in the same pass over the images."""
        return isinstance(self.exam, type)

    @property
    def settings(self) -> Any:
        """The options as they tell one exam from another."""
        return json.loads(self.exam.settings) if self.exam.settings else {}


def _written(value: Any) -> Any:
    """A recipe among options as its choices, whatever it is called."""
    if isinstance(value, Recipe):
        return {key: choice for key, choice in value.to_dict().items() if key != "name"}
    return value


class OpenedImages:
    """The images that a study uses, each opened once."""

    def __init__(self) -> None:
        self._opened: dict[Part, ImageData] = {}
        self._whole: Open = cache(open_whole)  # broken images are looked for, and named, once
        self._identities: dict[Part, str] = {}

    def open(self, part: Part) -> ImageData:
        """The images of a part."""
        if part not in self._opened:
            self._opened[part] = part.load(self._whole)
        return self._opened[part]

    def identity(self, part: Part) -> str:
        """What tells this data from other data: its name if that says all, else what its files are."""
        published: dict[str, Any] = {"labels": part.labels, "classes": part.classes}
        if part.data in CATALOG and not any(published.values()):
            self.open(part)  # which refuses what is not there
            return part.data
        split = "train" if part.split == VALIDATION else part.split
        whole = Part(part.data, split, **published, skip_broken=part.skip_broken)
        if whole not in self._identities:
            self._identities[whole] = data_fingerprint(self.open(whole)) or ""
        self.open(part)
        return f"{part.data} {self._identities[whole]}"


def learned_part(arm: Arm, study: Study) -> Part:
    """The images that an arm is trained on."""
    return Part(arm.data, "train", arm.fraction, study.validation, skip_broken=study.skip_broken)


def part_of(look: Look, arm: Arm, study: Study) -> Part:
    """The images that an exam looks at: of the arm's own data with its fraction and without what is held out."""
    said: dict[str, Any] = {"labels": look.labels, "classes": look.classes, "skip_broken": study.skip_broken}
    if look.data is not None or look.split not in ("train", VALIDATION):
        return Part(look.data or arm.data, look.split, **said)
    fraction = arm.fraction if look.split == "train" else 1.0
    return Part(arm.data, look.split, fraction, study.validation, **said)


def as_plain(part: Part) -> Mapping[str, Any]:
    """A part of the images among the arguments of a job, and in its key."""
    published = {"labels": part.labels, "classes": part.classes}
    return {
        **{"data": part.data, "split": part.split, "fraction": part.fraction, "validation": part.validation},
        **{key: value for key, value in published.items() if value is not None},
    }


def broken_said(part: Part) -> Mapping[str, Any]:
    """An argument of a job that its key does not hold: the images that are left say what was left out."""
    return {"skip_broken": True} if part.skip_broken else {}
