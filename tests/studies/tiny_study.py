"""A real study that takes seconds: a tiny vision transformer with and without an operation, on a few images."""

from pathlib import Path
from typing import Any

from vitscope.claims.verdict import Rule
from vitscope.results.result import read_checked
from vitscope.studies.design import Arm, Comparison, Look
from vitscope.studies.graph import plan_study
from vitscope.studies.run import Done, StudyRequest, do_study
from vitscope.studies.runners import Runner
from vitscope.studies.schedule import Report, Schedule
from vitscope.studies.store import Store
from vitscope.studies.study import Study

MODEL = "tests.studies.fragile:fragile_vit"
CHANGES = {"epochs": 2, "warmup_epochs": 0}
SHARED: dict[str, Any] = {"changes": CHANGES, "fraction": 0.02, "seeds": (0,)}


def arms(model: str = MODEL, **changed: Any) -> tuple[Arm, Arm, Arm]:
    shared = {**SHARED, **changed}
    return (
        Arm("plain", model, **shared),
        Arm("broadcast", model, operations=({"broadcast_context": {"kind": "cb"}},), **shared),
        Arm("local", model, operations=("localize kernel=3",), start="plain", train=False, **shared),
    )


LOOKS = (
    Look("prediction", split="validation", batch_size=40),
    Look("attention", split="validation", batch_size=40),
    Look("train_loss", "prediction", split="train", limit=60, arms=("plain", "local")),
)
BETTER = Comparison("better", "It is better", "broadcast", "plain", "prediction.accuracy", Rule("above"))


def tiny_study(**changed: Any) -> Study:
    """Three arms, of which two are trained, and two passes over images for each."""
    content = {"arms": arms(), "looks": LOOKS, "comparisons": (BETTER,), "validation": 0.02, **changed}
    return Study("tiny", "Does it run?", **content)


FILE = f"""
name: tiny
question: Does it run?
fraction: 0.02
changes: {{epochs: 2, warmup_epochs: 0}}
seeds: 1
validation: 0.02
arms:
  plain: {{model: "{MODEL}"}}
  broadcast: {{model: "{MODEL}", operations: [broadcast_context: {{kind: cb}}]}}
  local: {{from: plain, operations: [localize kernel=3], train: false}}
exams:
  prediction: {{batch_size: 40}}
  attention: {{batch_size: 40}}
  train_loss: {{exam: prediction, split: train, limit: 60, arms: [plain, local]}}
comparisons:
  - {{name: better, statement: It is better, of: broadcast, against: plain, quantity: prediction.accuracy,
     rule: above 0}}
"""


JOBS = 8  # of it


def contents(store: Path) -> dict[str, Any]:
    """Every result in a store, as it stands there."""
    found = store.glob("exams/*/exams/*")
    return {str(path.relative_to(store)): read_checked(path / "result.json")["result"] for path in found}


def jobs_done(study: Study, store: Path) -> Report:
    """What is missing of a study is done, in this process."""
    plan = plan_study(study, Store(store))
    return Schedule(list(plan.missing.values()), plan.store, Runner(1)).run()


def done_here(study: Any, store: Path, out: Path, **changed: Any) -> Done:
    """The study, in this process."""
    return do_study(StudyRequest(study, store, "here", progress=False, **changed), out)
