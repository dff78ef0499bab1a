"""What `answers` finds: result, reading and figures."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.reliability import draw_reliability
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result, tidy
from vitscope.results.calibrated import Calibrated, calibration_in_words
from vitscope.results.codec import ByteArray, stored_as
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number

QUANTITIES = ("accuracy", "top5", "nll", "brier", "confidence", "ece", "signed_ece")
KINDS = ("yes/no", "number", "other", "none of the answers")


def kind_of(answer: str | None) -> int:
    """Which of `KINDS` a question is of that has this right answer, or none that can be chosen."""
    if answer is None:
        return 3
    word = answer.strip().lower()
    return 0 if word in ("yes", "no") else 1 if word.replace(".", "", 1).isdigit() else 2


@dataclass(frozen=True, eq=False)
class AnsweredQuestion:
    """One question with its picture, what is right, and what the model answers."""

    place: int  # in the data
    picture: ByteArray  # (H, W, 3)
    question: str
    right: tuple[str, ...]  # the best first; none: no answer that can be chosen is
    rightness: np.ndarray  # of each, from 0 to 1
    said: tuple[str, ...]  # the answers with the highest scores
    confidence: np.ndarray  # of each

    @property
    def is_right(self) -> bool:
        """Whether the answer is right to some degree."""
        return self.said[0] in self.right


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswersResult(Calibrated, Result, exam="answers", after="detection"):
    """Quality and calibration of answers; `value`, `low`, `high` follow `QUANTITIES`, and `n` counts pictures."""

    about = About(
        title="Answers",
        shows="How right the answers to questions about pictures are: an answer counts as much as people agree with "
        "it. The reliability diagram asks whether an answer that is given with 80 % is right in 80 % of cases.",
        papers="In the paper, Context Broadcasting raises the accuracy of ViLT from 71.28 to 71.44 (on image tokens), "
        "71.46 (on text tokens) and 71.42 (on both).",
        misleads="Some questions can be answered without a look at the picture: compare with the most frequent answer. "
        "Questions about one picture are alike: only pictures count as independent. A question none of whose answers "
        "can be chosen is answered wrongly by every model.",
    )
    measures = (*QUANTITIES, *(f"{kind} accuracy" for kind in KINDS))
    quantities = QUANTITIES
    in_bins = "questions"
    needs = "data of vqa (--data easy-vqa, vqa:PATH) and a model that was trained for it"

    questions: int
    kind_count: np.ndarray  # (kinds,) questions
    by_kind: Estimate[np.ndarray] = field(metadata=stored_as("kind_accuracy", "kind_low", "kind_high"))
    answer_names: tuple[str, ...]
    answer_count: np.ndarray  # (answers,) questions whose best answer it is
    answer_said: np.ndarray  # (answers,) questions that were answered so
    by_answer: Estimate[np.ndarray] = field(
        metadata=stored_as("answer_accuracy", "answer_low", "answer_high")
    )
    shown: tuple[AnsweredQuestion, ...]

    @property
    def accuracy(self) -> float:
        """How right answers are, on average."""
        return self.quantity("accuracy")

    @property
    def nll(self) -> float:
        """The loss of the task."""
        return self.quantity("nll")

    def table(self) -> pd.DataFrame:
        """One row per quantity, then the accuracy of each kind of question."""
        whole = tidy(QUANTITIES, *self.estimate, self.n)
        rows = np.flatnonzero(self.kind_count)
        kinds = tidy("accuracy", *self.by_kind.at(rows), self.n)
        kinds["quantity"] = [f"{KINDS[row]} accuracy" for row in rows]
        return pd.concat([whole, kinds], ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The quantities, the reliability diagram bin by bin, and the answers."""
        return {**super().tables(), "reliability": self.reliability_table(), "by_answer": self.answer_table()}

    def answer_table(self) -> pd.DataFrame:
        """A row per answer that is right or given: questions, and how right the model is about them."""
        rows = np.flatnonzero(self.answer_count + self.answer_said)
        value, low, high = self.by_answer.at(rows)
        return pd.DataFrame(
            {
                "answer": [self.answer_names[row] for row in rows],
                **{"accuracy": value, "accuracy_low": low, "accuracy_high": high},
                **{"questions": self.answer_count[rows], "said": self.answer_said[rows], "pictures": self.n},
            }
        )


MOST = 24  # answers in a figure


@figure(
    "answers",
    "How right answers are, with 95 % intervals over pictures: by kind of question (left of the line), and by the "
    "right answer, the most frequent first; dashed: all questions.",
)
def plot_answers(result: AnswersResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Bars of the accuracy by kind of question and by answer."""
    ax = axes_or_new(ax)
    kinds = np.flatnonzero(result.kind_count)
    frequent = np.argsort(-result.answer_count, kind="stable")
    answers = [k for k in frequent[:MOST] if result.answer_count[k]]
    places = np.concatenate([np.arange(len(kinds)), len(kinds) + 0.6 + np.arange(len(answers))])
    parts = zip(result.by_kind.at(kinds), result.by_answer.at(answers), strict=True)
    numbers = Estimate(*(np.concatenate(pair) for pair in parts))
    for chosen, opacity in ((slice(0, len(kinds)), 0.9), (slice(len(kinds), None), 0.6)):
        ax.bar(places[chosen], numbers.value[chosen], 0.7, color=colour, alpha=opacity, linewidth=0)
    draw_bars(ax, places, numbers, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2.0)
    ax.axvline(len(kinds) - 0.2, color=INK, linewidth=0.6, alpha=0.5)
    ax.axhline(result.accuracy, color=INK, linestyle="--", linewidth=1.0, alpha=0.7)
    names = [KINDS[k] for k in kinds] + [result.answer_names[k] for k in answers]
    ax.set_xticks(places, names, rotation=50, ha="right", rotation_mode="anchor", fontsize=8.5)
    accuracy = result.told("accuracy", "accuracy")
    told = f"{accuracy},  {result.questions} questions about {result.n} pictures"
    ax.text(0.0, 1.03, told, transform=ax.transAxes, fontsize=9)
    ax.set_ylabel("Accuracy")
    ax.set_ylim(0.0, 1.0)
    grid(ax)
    return ax


@figure(
    "answers",
    "Reliability diagram of the chosen answers: how right they are by confidence, with 95 % intervals over pictures, "
    "and the share of the questions in each bin. Faint bars: less than 0.1 %.",
    name="answers_reliability",
)
def plot_answers_reliability(
    result: AnswersResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """How right the answers in each confidence bin are, against the diagonal of perfect calibration."""
    return draw_reliability(axes_or_new(ax), result, "answers", colour)


@figure(
    "answers",
    "A few questions (drawn at random) with their pictures, the right answers, and what the model says, with its "
    "confidence.",
    name="answers_shown",
)
def plot_answers_shown(
    result: AnswersResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Picture, question, truth and answer side by side."""
    ax = axes_or_new(ax)
    if not result.shown:
        return nothing(ax, "no question was shown")
    for column, one in enumerate(result.shown):
        tall, wide, _ = one.picture.shape
        scale = 0.94 / max(tall, wide)
        x, y = column + 0.5, 1.0 - tall * scale / 2
        extent = (x - wide * scale / 2, x + wide * scale / 2, y - tall * scale / 2, y + tall * scale / 2)
        ax.imshow(one.picture.array, extent=extent, interpolation="nearest", origin="upper")
        lines = textwrap.wrap(one.question, 26)[:3]
        truth = (
            ", ".join(_with_share(*pair) for pair in zip(one.right, one.rightness, strict=True)) or "unknown"
        )
        said = [f"{name} {100 * p:.0f} %" for name, p in zip(one.said, one.confidence, strict=True)]
        mark = "✓" if one.is_right else "✗"
        lines += [f"right: {truth}", f"{mark} {said[0]}", *(f"   {other}" for other in said[1:])]
        ax.text(
            column + 0.04, 0.98 - tall * scale, "\n".join(lines), va="top", fontsize=7.5, linespacing=1.35
        )
    ax.set_xlim(0, len(result.shown))
    ax.set_ylim(-0.75, 1.0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _with_share(answer: str, rightness: float) -> str:
    return answer if rightness == 1.0 else f"{answer} ({rightness:.1g})"


@reads("answers")
def _answers(result: AnswersResult) -> str:
    rows = by_name(result.table())
    calibration = calibration_in_words(rows["signed_ece"])
    most = int(result.answer_count.argmax())
    share = result.answer_count[most] / max(result.questions, 1)
    text = (
        f"Its answers are right to {number(rows['accuracy'])} over {result.questions} questions about {result.n} "
        f"pictures, with a mean confidence of {number(rows['confidence'])}: {calibration}. The calibration error is "
        f"{number(rows['ece'])}, the loss {number(rows['nll'])}. The most frequent right answer, "
        f"{result.answer_names[most]}, is that of "
        f"{100 * share:.0f} % of the questions."
    )
    kinds = [row for name, row in rows.items() if name.endswith(" accuracy")]
    told = ", ".join(f"{row.quantity.removesuffix(' accuracy')} {number(row)}" for row in kinds)
    return f"{text} By kind: {told}." if len(kinds) > 1 else text
