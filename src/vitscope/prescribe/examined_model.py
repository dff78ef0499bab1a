"""From a run back to the model that was examined, and to the images it was examined on."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.anatomy import Dissection, dissect
from vitscope.core.errors import VitscopeError
from vitscope.core.interface import NOTHING_SAID, Interface, declare, declared
from vitscope.data import ImageData, load_data
from vitscope.engine.cache_key import weights_hash
from vitscope.models import UntrustedCode, create_model
from vitscope.models.sources import timm as from_timm
from vitscope.models.sources.run_folder import CONFIG
from vitscope.models.trust import HUGGING_FACE, allow_data, allow_model
from vitscope.results import Result, Run
from vitscope.results.examined import Examination, all_examinations, by_exam, examinations
from vitscope.surgery import replay


@dataclass(frozen=True)
class ExaminedModel:
    """A model and what its diagnosis found."""

    run: Run
    model: nn.Module
    reference: str  # what `create_model` makes it from
    results: Mapping[str, Result]
    needs_trust: bool = False  # whoever makes it again has to say `--trust-code`

    @property
    def name(self) -> str:
        """What the run calls the model."""
        return str(self.run.model.get("name") or self.run.path.name)

    @cached_property
    def body(self) -> Dissection:
        """The model's units and how they are connected."""
        return dissect(self.model)

    def command(self, exams: tuple[str, ...]) -> str:
        """What to type to have more exams in the run."""
        images, names = examined_on(self.run).typed(), " ".join(exams)
        return f"vitscope diagnose {self._typed()} {images} --exams {names} --out {self.run.path}"

    @cached_property
    def lacks_labels(self) -> str:
        """The images that it was examined on, if they have no labels; else nothing."""
        where = examined_on(self.run)
        try:
            images = load_data(where.spec, split=where.split, check=False) if where.spec else None
        except VitscopeError:  # they are not here any more
            return ""
        return where.data if isinstance(images, ImageData) and images.unlabelled else ""

    def fit_command(self) -> str:
        """What to type to fit a temperature to its predictions."""
        images = examined_on(self.run).typed()
        return f"vitscope evaluate {self._typed()} {images} --exams prediction --temperature fit"

    def _typed(self) -> str:
        """The model as a command names it, with the options that it was made with: `resnet_mini --img-size 64`."""
        origin = self.run.model.get("origin") or {}
        made = origin.get("arguments") or {} if self.reference == origin.get("name") else {}
        size, classes = made.get("img_size"), made.get("num_classes")
        side = f" --img-size {size}" if isinstance(size, int) else ""
        count = f" --num-classes {classes}" if isinstance(classes, int) else ""
        weights = " --no-pretrained" if made.get("pretrained") is False else ""
        trust = " --trust-code" if self.needs_trust else ""
        return f"{self.reference}{side}{count}{weights}{trust}"


def ways_to_examine(run: Run, exams: Sequence[str], trust_code: bool) -> list[Examination]:
    """Exams as the run has them, the others as in its last diagnosis; commands that open images have to be trusted."""
    ways = by_exam(examinations(run) or [examined_on(run)], exams)
    for way in ways:
        if way.spec is not None:
            allow_data(way.spec, run.path / "run.json", trust_code)
    return ways


def examined_on(run: Run) -> Examination:
    """The last diagnosis in a run: the images that its exams were made on."""
    return next(reversed(all_examinations(run)), Examination("", None))


def open_run(path: str | os.PathLike[str]) -> Run:
    """The run in a folder; where a model is named instead, the error says how to examine it."""
    name = os.fspath(path)
    if not Path(name).exists() and from_timm.has(name):
        folder = f"runs/{name}"
        raise VitscopeError(
            f"{name} is a model, and a run folder is expected; examine it: vitscope diagnose {name} --data fashion "
            f"--exams all --out {folder}, then: vitscope prescribe {folder}"
        )
    return Run.open(path)


def find_examined_model(
    run: Run,
    model: nn.Module | str | None = None,
    said: Interface = NOTHING_SAID,
    trust_code: bool = False,
) -> ExaminedModel:
    """The model of a run: the one named, else the one in the folder, else the one that its record leads to.

    It is spoken to as it was when it was examined, and as `said`. Code that the run names needs `trust_code`.

    Raises:
        VitscopeError: There is none, or it has other weights than those that were examined.
    """
    results = run.results()
    if not results:
        raise VitscopeError(
            f"{run.path} holds no finished exam; make some: vitscope diagnose MODEL --exams all --out {run.path}"
        )
    made, reference = _make(run, model, trust_code)
    made.eval()
    for words in (run.model.get("interface") or {}, said.to_dict()):
        declare(made, **words)
    if said.output is not None:
        with declared(made, output=said.output):
            dissect(made)  # which refuses an output that is not there
    examined = _examined_weights(run)
    if examined is not None and weights_hash(made) != examined:
        raise VitscopeError(
            f"{run.path} was examined with other weights than {reference} has now; name the model that was "
            "examined with --model, or examine this one again"
        )
    needs_trust = trust_code and (Path(reference).is_dir() or reference.startswith(HUGGING_FACE))
    return ExaminedModel(run, made, reference, results, needs_trust)


def _make(run: Run, model: nn.Module | str | None, trust_code: bool) -> tuple[nn.Module, str]:
    facts, made = run.model, run.model.get("origin") or {}
    if isinstance(model, nn.Module):
        return model, str(facts.get("name") or type(model).__name__)
    held = str(run.path) if (run.path / CONFIG).exists() else facts.get("run")
    source = model or held or made.get("name") or facts.get("name")
    if not source:
        raise VitscopeError(f"{run.path} does not say which model was examined; name it: --model MODEL")
    try:
        if model or held:
            if not (model or Path(source).is_dir()):
                allow_model(source, {}, run.path / "run.json", trust_code)
            named = Path(source) if Path(source).is_dir() else source
            return create_model(named, pretrained=None, trust_code=trust_code), source
        arguments = made.get("arguments", {})
        allow_model(source, arguments, run.path / "run.json", trust_code)
        plain = create_model(source, pretrained=None, trust_code=trust_code, **arguments)
        return replay(plain, facts.get("surgery") or []), source
    except UntrustedCode:
        raise
    except VitscopeError as error:
        raise VitscopeError(
            f"the model that {run.path} is about cannot be made again from '{source}' ({error}); "
            "name it: --model MODEL (in Python prescribe(run, model=model))"
        ) from error


def _records(run: Run) -> list[Mapping[str, Any]]:
    """Of all that was written into the run, the last first."""
    return [run.record, *reversed(run.record.get("earlier") or [])]


def _examined_weights(run: Run) -> str | None:
    """The fingerprint of the last diagnosis in the folder, if it left one."""
    found = [(record.get("model") or {}).get("weights_sha256") for record in _records(run)]
    return next((digest for digest in found if digest), None)
