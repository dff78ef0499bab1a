"""How right answers to questions about pictures are, and whether the model knows it.

Accuracy, likelihood, Brier score and calibration of the chosen answer as `engine/answer_scores.py` defines them, for
all questions and by kind of question: those whose best answer is yes or no, a number, or something else. By answer: of
the questions whose best answer is k, how right the model is.

Intervals are over pictures, by a bootstrap that draws pictures with all questions about them. Memory depends on the
number of answers, and a bit for every picture.
"""

from typing import Any, Self, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitscope.core.bootstrap import (
    REPLICATES,
    images_behind,
    known_intervals,
    of_few,
    poisson_weights,
    standard_error,
)
from vitscope.core.statistics import Estimate, difference_interval, score_interval
from vitscope.engine.answer_scores import (
    bits_set,
    either,
    highest,
    score_answers,
    seen_once,
    targets_of,
    with_pictures,
)
from vitscope.engine.condition_scores import COLUMNS, FILLED
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.scores import error_interval, least_error, lengthened
from vitscope.engine.shown_images import ShowsImages
from vitscope.engine.single_exam import single_exam
from vitscope.findings.answers import KINDS, QUANTITIES, AnsweredQuestion, AnswersResult, ByteArray, kind_of
from vitscope.results.condition_rows import BINS, MEANS

SIDE = 160  # of pictures that are kept to be shown, at most
TOP = 3  # answers that are shown
BY_ANSWER = 200  # replicates of each answer


class AnswersAccumulator(ShowsImages):
    """Sums over questions of their scores, plain and in every bootstrap replicate."""

    result = AnswersResult
    task = "vqa"
    evaluation = True

    n: Tensor  # questions
    sums: Tensor  # (1 + replicates, COLUMNS): weight, scores, gap of each bin; the first row is plain
    bins: Tensor  # (1 + replicates, 2 x bins): questions, and how right they are
    kinds: Tensor  # (kinds, 2, 1 + replicates): questions, and how right they are
    answers: Tensor  # (answers, 2, 1 + BY_ANSWER)
    said: Tensor  # (answers,)
    seen: Tensor  # (words,) bits of pictures
    chosen: Tensor  # (few, TOP) answers with the highest scores, from 1 on
    confidence: Tensor  # (few, TOP)

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        rows = 1 + REPLICATES
        answers = 0 if subject.pictures is None else len(subject.pictures.classes)
        self.add_sums(sums=(rows, COLUMNS), bins=(rows, FILLED), kinds=(len(KINDS), 2, rows))
        self.add_sums(answers=(answers, 2, 1 + BY_ANSWER), said=(answers,))
        self.add_counts("n")
        self.add_sum("seen", (0,), torch.int64)
        self.add_kept("chosen", (TOP,))
        self.add_kept("confidence", (TOP,), torch.float64)

    def update(self, batch: Batch) -> None:
        """Take in the answers to one batch of questions."""
        data = self.subject.pictures
        assert data is not None
        scores, indices = batch.logits.cpu().double(), batch.indices.cpu()
        columns = score_answers(scores, indices, data, self.subject.model)
        targets = targets_of(scores, indices, data, self.subject.model)
        asked_about = data.picture_numbers[indices.numpy()]
        weights = torch.from_numpy(poisson_weights(asked_about, self.subject.seed))
        self.sums += weights.T @ columns[:, :COLUMNS]
        self.bins += weights.T @ columns[:, COLUMNS:]
        best, known = targets.argmax(1), targets.amax(1) > 0
        counted = columns[:, :2, None] * weights[:, None]  # one, and how right
        names = [data.classes[int(k)] if some else None for k, some in zip(best, known, strict=True)]
        self.kinds.index_add_(0, torch.tensor([kind_of(name) for name in names]), counted)
        self.answers.index_add_(0, best[known], counted[known][..., : 1 + BY_ANSWER])
        self.said += torch.bincount(scores.argmax(1), minlength=len(self.said))
        self.seen = with_pictures(self.seen, asked_about)
        self.n += len(indices)
        for row, index in enumerate(indices.tolist()):
            if (slot := self.slot_for(index)) is not None:
                top = highest(scores[row])[:TOP]
                self.chosen[slot, : len(top)] = 1 + top
                self.confidence[slot, : len(top)] = scores[row][top].sigmoid()

    def merge_state(self, other: Self) -> None:
        """Take in another one's sums; a picture that both were asked about counts once."""
        both = either(self.seen, other.seen)
        for one in (self, other):
            one.seen = lengthened(one.seen, len(both))
        super().merge_state(other)
        self.seen = both

    def finish(self) -> AnswersResult:
        """The result; a picture that several processes were asked about counts once."""
        own, self.seen = self.seen, seen_once(self.seen)
        try:
            return cast(AnswersResult, super().finish())
        finally:
            self.seen = own

    def compute(self) -> dict[str, Any]:
        """Every quantity with its interval, the reliability diagram, kinds, answers, and the questions to show."""
        sums, pictures = self.sums.numpy(), bits_set(self.seen)
        count, right = np.split(self.bins.numpy(), 2, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = dict(zip(MEANS, (sums[:, 1 : 1 + len(MEANS)] / sums[:, :1]).T, strict=True))
            gaps = sums[:, 1 + len(MEANS) :] / sums[:, :1]
            bin_confidence = (sums[0, 1 + len(MEANS) :] + right[0]) / count[0]
        found = {**means, "ece": np.abs(gaps).sum(1), "signed_ece": means["confidence"] - means["accuracy"]}
        drawn = np.column_stack([found[quantity] for quantity in QUANTITIES])
        low, high = known_intervals(drawn, pictures)
        errors = dict(zip(QUANTITIES, of_few(standard_error(drawn[1:]), pictures), strict=True))
        special: dict[str, tuple[Any, Any]] = {
            name: score_interval(drawn[0, QUANTITIES.index(name)], errors[name], pictures)
            for name in ("accuracy", "top5")
        }
        signed = found["signed_ece"][0]
        special["signed_ece"] = difference_interval(signed, errors["signed_ece"], pictures)
        special["ece"] = error_interval(gaps[:, None], least_error(count[0], right[0], pictures)[None])
        for name, ends in special.items():
            low[QUANTITIES.index(name)], high[QUANTITIES.index(name)] = ends
        data = self.subject.pictures
        assert data is not None
        return {
            "n": pictures,
            "questions": int(self.n),
            "value": drawn[0],
            "low": low,
            "high": high,
            "drawn": drawn[1:],
            "bin_count": count[0].astype(np.int64),
            "bin_confidence": bin_confidence,
            "bin_accuracy": _shares(self.bins.reshape(-1, 2, BINS).permute(2, 1, 0), pictures),
            "kind_count": self.kinds[:, 0, 0].numpy().astype(np.int64),
            "by_kind": _shares(self.kinds, pictures),
            "answer_names": tuple(data.classes),
            "answer_count": self.answers[:, 0, 0].numpy().astype(np.int64),
            "answer_said": self.said.numpy().astype(np.int64),
            "by_answer": _shares(self.answers, pictures),
            "shown": tuple(self._question(slot) for slot in self.slots),
        }

    def _question(self, slot: int) -> AnsweredQuestion:
        """Picture, question and truth are the data's; the answers are what was kept."""
        data, place = self.subject.pictures, int(self.places[slot])
        assert data is not None
        picture, target = data.picture(place).convert("RGB"), np.asarray(data.target(place), np.float64)
        scale = min(1.0, SIDE / max(picture.size))
        wide, tall = (max(1, round(scale * side)) for side in picture.size)
        pixels = np.asarray(picture.resize((wide, tall), Image.Resampling.BOX))
        best = [int(k) for k in np.argsort(-target, kind="stable")[:TOP] if target[k] > 0]
        said = [int(k) - 1 for k in self.chosen[slot] if k]
        return AnsweredQuestion(
            place,
            ByteArray.of(np.ascontiguousarray(pixels)),
            data.question(place),
            tuple(data.classes[k] for k in best),
            target[best],
            tuple(data.classes[k] for k in said),
            self.confidence[slot, : len(said)].numpy().copy(),
        )


def _shares(counts: Tensor, n: int) -> Estimate[np.ndarray]:
    """How right each row of (rows, 2, 1 + replicates) is."""
    asked, right = np.moveaxis(counts.numpy(), 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (right / asked).T
        error = of_few(standard_error(drawn[1:]), n)
        return Estimate(drawn[0], *score_interval(drawn[0], error, images_behind(asked.T)))


answers = single_exam(AnswersAccumulator, "what `model` answers to the questions of `data`")
