"""The commands that are disturbed, on tiny models and data; each is what a user types."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import Done, Job
from tests.prove.faults.same import differences
from tests.prove.record import Finding

VIT = "tests.prove.tiny:vit"
TRAIN = ["--epochs", "3", "--batch-size", "12", "--save-every", "2", "--checkpoint-every", "2"]
STUDY = """
name: tiny
question: Does it run?
data: folder:{data}/folder
fraction: 1.0
changes: {{epochs: 2, warmup_epochs: 0, batch_size: 7}}
seeds: 1
validation: 0.34
arms:
  plain: {{model: "tests.prove.tiny:vit"}}
  broadcast: {{model: "tests.prove.tiny:vit", operations: [broadcast_context: {{kind: cb}}]}}
exams:
  prediction: {{batch_size: 5}}
comparisons:
  - {{name: better, statement: It is better, of: broadcast, against: plain, quantity: prediction.accuracy,
     rule: above 0}}
"""


@dataclass(frozen=True)
class Command:
    """Words for a place: `{data}` is where the tiny data is, `{out}` where it writes.

    `again` is what is added to go on, `kept` what is compared below `{out}`.
    """

    name: str
    words: Sequence[str]
    again: Sequence[str] = ()
    kept: Sequence[str] = ("run",)

    def typed(self, data: Path, out: Path, going_on: bool = False) -> list[str]:
        """The words of a run below `out`."""
        words = [*self.words, *(self.again if going_on else ())]
        return [word.format(data=data, out=out) for word in words]

    def start(
        self,
        data: Path,
        out: Path,
        going_on: bool = False,
        before: Sequence[str] = (),
        cache: Path | None = None,
        processes: int = 1,
    ) -> Job:
        """Begin it in a process of its own; `before` are words of a script that runs it."""
        environment = {"VITSCOPE_DATA": str(cache or out / "cache"), "HF_HUB_OFFLINE": "1"}
        program = [*before] or ["-m", "vitscope.cli.app"]
        words = self.typed(data, out, going_on)
        return Job(*program, *words, processes=processes, environment=environment)

    def run(self, data: Path, out: Path, *arguments: Any, **more: Any) -> Done:
        """From its start to its end."""
        out.mkdir(parents=True, exist_ok=True)
        return self.start(data, out, *arguments, **more).finish(timeout=300)

    def go_on(self, data: Path, out: Path, **more: Any) -> Done:
        """The same command again, as a user would who sees that there is something already."""
        return self.run(data, out, (out / "run" / "run.json").exists(), **more)

    def compared(self, whole: Path, out: Path, what: str, once_more: str) -> None:
        """Refuse results that are not those of the undisturbed command."""
        found = [f"{part}/{p}" for part in self.kept for p in differences(whole / part, out / part)]
        if found:
            raise Finding(f"{what}: {'; '.join(found[:5])}", once_more)


def _train(name: str, *more: str, model: str = VIT, data: str = "folder:{data}/folder") -> Command:
    words = ["train", model, "--data", data, "--out", "{out}/run", *TRAIN, *more]
    return Command(name, words, again=("--resume",))


def _exams(name: str, verb: str, *more: str) -> Command:
    kept = ("run", "cache/corruptions") if "corruption" in more else ("run",)
    return Command(
        name, [verb, VIT, "--data", "folder:{data}/folder", "--out", "{out}/run", *more], kept=kept
    )


COMMANDS = [
    _train("training"),
    _train("training with an average of weights", "--ema-decay", "0.9"),
    _train("training with accumulation", "--accumulate", "2"),
    _train("training with workers", "--workers", "2"),
    _train(
        "training of segmentation", "--img-size", "32", model="unet:resnet_mini", data="masks:{data}/masks"
    ),
    _train(
        "training of detection", "--img-size", "32", model="maskrcnn:resnet_mini", data="coco:{data}/coco"
    ),
    _train("training of questions", model="vilt_mini", data="vqa:{data}/vqa"),
    _exams(
        "diagnose",
        "diagnose",
        "--batch-size",
        "4",
        "--exams",
        "fourier",
        "variance",
        "attention",
        "prediction",
    ),
    _exams("evaluate", "evaluate", "--batch-size", "4", "--exams", "prediction", "noise"),
    _exams(
        "corruption cache",
        *("evaluate", "--exams", "corruption", "--batch-size", "4"),
        *("--corruption.types", "fog,contrast,pixelate", "--corruption.severities", "1,3"),
    ),
    _exams("landscape", "diagnose", "--exams", "landscape", "--landscape.points", "5"),
    _exams("hessian", "diagnose", "--exams", "hessian", "--hessian.batches", "3"),
    Command(
        "study",
        [
            "study",
            "{out}/../tiny.yaml",
            "--trust-code",
            "--out",
            "{out}/run",
            "--store",
            "{out}/store",
            "--engine",
            "here",
        ],
        kept=("run", "store"),
    ),
]


NAMED = {command.name: command for command in COMMANDS}


def check_words(done: Done, what: str, once_more: str = "") -> None:
    """Whatever it said: no traceback, and a refusal is one line of our own."""
    if "Traceback" in done.stderr or "--debug" in done.stderr:
        raise Finding(f"{what}: words of Python: {done.stderr[-1500:]}", once_more)


def check_refusal(done: Done, what: str, once_more: str = "") -> str:
    """The line that it refused with."""
    check_words(done, what, once_more)
    lines = [
        line for line in done.stderr.splitlines() if "vitscope: " in line
    ]  # perhaps after a bar of one that died
    if done.returncode <= 0 or not lines:
        raise Finding(f"{what}: ended with {done.returncode} and said {done.stderr[-1500:]!r}", once_more)
    return lines[-1]
