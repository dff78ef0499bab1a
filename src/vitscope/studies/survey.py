"""`vs.survey(["vit_*", "convnext*"], data="folder:photos")`: many models as they come, examined alike, on one page.

A survey is a study whose arms are not trained here: the same store, jobs and engines. A model that cannot be built, has
no weights or fails an exam is a row with its reason, while the rest goes on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from vitscope.core.arguments import Count, CountFromZero, NotNegative, checked
from vitscope.core.errors import BadArgument, VitscopeError, did_you_mean, warn
from vitscope.findings.prediction import PredictionResult
from vitscope.models import list_models
from vitscope.models.create import random_weights
from vitscope.models.info import describe
from vitscope.models.zoo import fitting, timms_own
from vitscope.report.atlas import write_atlas
from vitscope.results import Result, atomic_write
from vitscope.results.plain_files import default_folder, display_name
from vitscope.results.study_result import StudyResult
from vitscope.studies.design import Arm, Look
from vitscope.studies.engines import Engine
from vitscope.studies.run import STORE, StudyRequest, carry_out
from vitscope.studies.study import Study
from vitscope.studies.summary import summarise

EXAMS = ("fourier", "variance", "attention")  # which need no labels
TABLE = "models.csv"
_PATTERN = frozenset("*?[")
_SEED = 0  # of weights that are not loaded


@checked
def survey(
    models: str | Sequence[str],
    data: str = "fashion",
    exams: Sequence[str] = EXAMS,
    out: str | os.PathLike[str] | None = None,
    *,
    split: str = "test",
    limit: int | None = None,
    batch_size: int = 128,
    pretrained: bool = True,
    img_size: int | None = None,
    num_classes: int | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    store: str | os.PathLike[str] = STORE,
    engine: Engine = "local",
    workers: Count | None = None,
    address: str | None = None,
    cpus_per_job: Count = 1,
    gpus_per_job: NotNegative | None = None,
    budget: str | None = None,
    retries: CountFromZero = 0,
    skip_broken: bool = False,
    trust_code: bool = False,
    progress: bool = True,
) -> StudyResult:
    """Examine many models on the same images and write one table (`models.csv`) and one page, an atlas.

    What was examined before is not examined again, by whichever survey or study; after an interruption the same call
    goes on.

    Args:
        models: Names, or patterns of names such as "vit_*" (see `list_models`).
        data: What `load_data` takes.
        exams: Which ones.
        out: Folder for tables and page; default: runs/survey/DATA.
        split: Which part of the data.
        limit: Use this many images.
        batch_size: Images per forward pass.
        pretrained: Load the weights that come with a name; False: random ones, and the page says so.
        img_size: Side of the images; default: each model's own.
        num_classes: Size of the heads; default: each model's own.
        options: Of single exams, by their names.
        store: Folder for results, which all studies share.
        engine: Who does the jobs (see `study`).
        workers: Jobs at once.
        address: Of the Ray cluster.
        cpus_per_job: Threads of each job.
        gpus_per_job: GPUs of each; default: one where this machine has any.
        budget: A time such as "6h": the models that fit into it.
        retries: How often a job that failed is tried again.
        skip_broken: Pass over image files that cannot be decoded (see `load_data`).
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).
        progress: Show on stderr where it stands.

    Returns:
        The tables; `.wide()` has a row per model. Models that failed are warned about.
    """
    names = find_names([models] if isinstance(models, str) else models)
    arguments = {
        "pretrained": None if pretrained else False,
        "img_size": img_size,
        "num_classes": num_classes,
    }
    asked = plan_survey(names, data, exams, split, limit, batch_size, arguments, options, skip_broken)
    request = StudyRequest(
        asked,
        store,
        engine,
        workers,
        address,
        cpus_per_job,
        gpus_per_job,
        budget,
        retries=retries,
        trust_code=trust_code,
        progress=progress,
    )
    facts = _facts(asked, progress)
    plan, report, folder = carry_out(
        request, out if out is not None else default_folder("survey", data, split)
    )
    notes = {task.node.arm: _reason(task.failures[-1]) for task in report.of("failed")}
    cautions = _cautions(plan.results())
    told = {place: known | cautions.get(place, {}) for place, known in facts.items()}
    result = summarise(plan.study, plan.results(), told, notes, differences=False).save(folder)
    atomic_write(folder / TABLE, result.wide().to_csv(index=False))
    write_atlas(result)
    if len(notes) == len(names):
        name, why = next(iter(notes.items()))
        raise VitscopeError(f"none of {len(names)} models could be examined; {name}: {why}")
    for (arm, _), said in cautions.items():
        warn(f"{arm}: {said['caution']}")
    for name, why in notes.items():
        warn(why if why.startswith(f"{name}: ") else f"{name}: {why}")
    return result


def _cautions(
    results: Mapping[tuple[str, int], Mapping[str, Result]],
) -> dict[tuple[str, int], dict[str, str]]:
    """Of models whose outputs are not the classes of the data what there is to say about that."""
    found = {}
    for place, own in results.items():
        said = [one.mismatch for one in own.values() if isinstance(one, PredictionResult) and one.mismatch]
        if said:
            found[place] = {"caution": said[0]}
    return found


def find_names(patterns: Sequence[str]) -> list[str]:
    """The names that patterns stand for, each once, in order; what is no pattern stands for itself."""
    names: dict[str, None] = {}
    for pattern in patterns:
        if not _PATTERN & set(pattern):
            names[pattern] = None
            continue
        matching = list_models(pattern)
        if not matching:
            near = did_you_mean(pattern.strip("*"), list_models()).partition("; ")[0]
            meant = near if near.startswith("did you mean") else "try a shorter one, as in 'resnet*'"
            raise BadArgument(f"no model matches '{pattern}'; {meant} (see: vitscope models PATTERN)")
        names |= dict.fromkeys(matching)
    if not names:
        raise BadArgument("no model was named; try: vitscope survey 'vit_*' --no-pretrained --img-size 32")
    return list(names)


def plan_survey(
    names: Sequence[str],
    data: str,
    exams: Sequence[str],
    split: str = "test",
    limit: int | None = None,
    batch_size: int = 128,
    arguments: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    skip_broken: bool = False,
) -> Study:
    """The study that a survey is; `survey` documents the arguments."""
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    unused = [exam for exam in options or {} if exam not in exams]
    if unused:
        raise BadArgument(f"options are given for {unused[0]}, which is not among the exams; add it to them")
    arms = [Arm(display_name(name), name, given, data=data, seeds=(_SEED,), train=False) for name in names]
    looks = [
        Look(exam, options=(options or {}).get(exam, {}), split=split, limit=limit, batch_size=batch_size)
        for exam in dict.fromkeys(exams)
    ]
    question = f"How do {len(arms)} models compare?" if len(arms) > 1 else f"What is {arms[0].name} like?"
    return Study("survey", question, tuple(arms), tuple(looks), skip_broken=skip_broken)


def _facts(asked: Study, progress: bool) -> dict[tuple[str, int], dict[str, Any]]:
    """What is known of models before they are examined; refuses a survey of which no model can be built."""
    from rich.console import Console
    from rich.progress import track

    found, problems = {}, []
    shown = Console(stderr=True)
    for arm in track(asked.arms, "counting", console=shown, transient=True, disable=not progress):
        try:
            sizes = _sizes(arm)
        except VitscopeError as error:
            sizes = {}
            problems.append(error)
        random = random_weights(arm.model, arm.arguments.get("pretrained"))
        found[arm.name, _SEED] = {"weights": "random" if random else "its own", **_built(arm), **sizes}
    if len(problems) == len(asked.arms):
        raise problems[0]
    return found


def _built(arm: Arm) -> dict[str, str]:
    """The model that is built for small images in place of the one that was named, if there is such."""
    twin = fitting(arm.model, arm.arguments.get("img_size"))
    return {"built": twin} if twin != arm.model and arm.arguments.get("pretrained") is False else {}


def _sizes(arm: Arm) -> dict[str, int]:
    """Parameters, and FLOPs where they can be counted without weights."""
    given = {key: value for key, value in arm.arguments.items() if key != "pretrained"}
    has_twin = fitting(arm.model, given.get("img_size")) != arm.model
    try:
        known = describe(timms_own(arm.model) if has_twin and not _built(arm) else arm.model, **given)
    except (RuntimeError, ValueError, TypeError, AssertionError, LookupError, AttributeError) as error:
        if isinstance(error, VitscopeError):
            raise
        return {}  # why it cannot be examined, if it cannot, is told by who tries
    return {"parameters": known.parameters} | ({} if known.flops is None else {"flops": known.flops})


def _reason(failure: str) -> str:
    """Of what a failed job left behind, what a person has to know: the last thing that was said."""
    said = failure.partition(": ")[2] if failure.startswith("job ") else failure
    return said.rpartition(" | ")[2].partition(" (all of it:")[0].removeprefix("vitscope: ")
