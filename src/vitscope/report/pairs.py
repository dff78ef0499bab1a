"""Model against model on the same images: paired differences, images that only one gets right, claims about the two."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from vitscope.claims import (
    Verdict,
    alternet_verdicts,
    augmentation_verdicts,
    broadcast_verdicts,
    noise_verdict,
    transformer_verdicts,
)
from vitscope.core.errors import VitscopeError
from vitscope.data import CATALOG, ImageData, load_data
from vitscope.findings.prediction import PredictionResult
from vitscope.report.subject import RunSubject, exam_order
from vitscope.results import Result
from vitscope.results.numbers import label, spoken, with_interval
from vitscope.results.paired import Flips, differences, flips

SHOWN = 12  # images of each side
SIDE = 64  # pixels of a thumbnail, at most


@dataclass(frozen=True)
class Difference:
    """One quantity of a model minus that of the first one."""

    exam: str
    title: str  # of the exam
    quantity: str
    text: str
    verdict: str  # higher, lower or unclear


@dataclass(frozen=True)
class Thumbnail:
    """One image, as a data URI, and what is in it."""

    source: str
    label: str
    place: int


@dataclass(frozen=True)
class Side:
    """The images that one of two models alone gets right."""

    winner: RunSubject
    count: int
    images: list[Thumbnail]


@dataclass(frozen=True)
class Pair:
    """A model against the first one of the page."""

    first: RunSubject
    other: RunSubject
    verdicts: list[Verdict]
    differences: list[Difference]
    flips: Flips | None
    sides: list[Side]
    notes: list[str]

    @property
    def clear(self) -> list[Difference]:
        """The differences whose interval leaves out 0."""
        return [one for one in self.differences if one.verdict != "unclear"]

    @property
    def unclear(self) -> list[Difference]:
        """The differences whose interval contains 0."""
        return [one for one in self.differences if one.verdict == "unclear"]

    @property
    def flipped(self) -> str:
        """How many images both, neither, or one model alone gets right, with the difference in accuracy: a sentence."""
        assert self.flips is not None
        return (
            f"Of {self.flips.n} images {self.flips.both} are right and {self.flips.neither} wrong with both. "
            f"{self.other.name} alone is right about {self.flips.gained}, {self.first.name} alone about "
            f"{self.flips.lost}: a difference of {with_interval(_accuracy(self.flips), difference=True)} "
            f"(McNemar's exact test: p = {self.flips.p_value:.2g})."
        )


def pairs(subjects: Sequence[RunSubject]) -> list[Pair]:
    """The first model beside each of the others: a `Pair` for each of these, in their order."""
    return [_pair(subjects[0], other) for other in subjects[1:]]


def find_images(name: str) -> ImageData | None:
    """The data that a result names, if it lies on this machine; what would have to be fetched is left alone."""
    spec, _, split = name.removesuffix(")").rpartition(" (")
    if spec not in CATALOG and not spec.startswith("folder:"):
        return None
    try:
        return load_data(spec, split=split)
    except (VitscopeError, OSError):
        return None


def _pair(first: RunSubject, other: RunSubject) -> Pair:
    compared: list[Difference] = []
    notes: list[str] = []
    for exam in exam_order(name for name in other.results if name in first.results):
        try:
            compared += _differences(exam, other.results[exam], first.results[exam])
        except VitscopeError as error:
            notes.append(f"{exam}: {error}.")
    claims = pair_verdicts(first, other)
    ours, theirs = other.results.get("prediction"), first.results.get("prediction")
    if not isinstance(ours, PredictionResult) or not isinstance(theirs, PredictionResult):
        return Pair(first, other, claims, compared, None, [], notes)
    try:
        counted = flips(ours, theirs)
    except VitscopeError:  # already noted above
        return Pair(first, other, claims, compared, None, [], notes)
    known = _of_flips(counted, ours.about.title)
    compared = [known if (d.exam, d.quantity) == (known.exam, known.quantity) else d for d in compared]
    return Pair(first, other, claims, compared, counted, _sides(first, other, ours, theirs), notes)


def _of_flips(counted: Flips, title: str) -> Difference:
    """The difference in accuracy, with an interval from the images that only one model gets right.

    Where these are a handful, the bootstrap's interval is too narrow.
    """
    return Difference("prediction", title, "accuracy", *_words(_accuracy(counted)))


def _accuracy(counted: Flips) -> Any:
    """The difference in accuracy as a row of a table."""
    low, high = counted.interval
    return SimpleNamespace(quantity="accuracy", value=counted.difference, low=low, high=high)


def _differences(exam: str, ours: Result, theirs: Result) -> list[Difference]:
    rows = differences(ours, theirs)
    title = ours.about.title
    return [Difference(exam, title, spoken(label(exam, row)), *_words(row)) for row in rows.itertuples()]


def _words(row: Any) -> tuple[str, str]:
    """The difference with its interval, and which side of 0 it lies on."""
    side = "higher" if row.low > 0 else "lower" if row.high < 0 else "unclear"
    return with_interval(row, difference=True), side


def _sides(
    first: RunSubject, other: RunSubject, ours: PredictionResult, theirs: PredictionResult
) -> list[Side]:
    seen, we = ours.outcomes()
    they = theirs.outcomes()[1]
    data = find_images(ours.data)
    sides = []
    for winner, chosen in ((other, seen[we & ~they]), (first, seen[~we & they])):
        sides.append(Side(winner, len(chosen), _thumbnails(data, chosen[:SHOWN])))
    return sides


def _thumbnails(data: ImageData | None, places: np.ndarray) -> list[Thumbnail]:
    if data is None or (len(places) and places.max() >= len(data)):
        return []
    chosen = [(place, *data[place]) for place in map(int, places)]
    return [Thumbnail(_data_uri(picture), data.classes[label], place) for place, picture, label in chosen]


def _data_uri(picture: Image.Image) -> str:
    small = picture.convert("L" if picture.mode in ("1", "L") else "RGB")
    small.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    small.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def pair_verdicts(first: RunSubject, second: RunSubject) -> list[Verdict]:
    """Every claim about these two that their exams can decide, whichever of them comes first."""
    verdicts: list[Verdict] = []
    for one, other in ((first, second), (second, first)):
        for exam, judge in _claims(one, other):
            if exam in one.results and exam in other.results:
                try:
                    verdicts += judge(one.results[exam], other.results[exam])
                except VitscopeError:  # other images or other batches: nothing can be said
                    continue
    return verdicts


def _claims(one: RunSubject, other: RunSubject) -> Iterator[tuple[str, Callable[[Any, Any], list[Verdict]]]]:
    """Which claims are about `one` beside `other`: the exam, and what judges the two results."""
    if _is_cnn(other) and _is_transformer(one):
        yield "hessian", transformer_verdicts
        yield "frequency_noise", lambda transformer, cnn: [noise_verdict(cnn, transformer)]
    done, before = _operations(one), _operations(other)
    if _origin(one) is None or _origin(one) != _origin(other):
        return
    if done == [*before, "alternate"]:
        yield "hessian", alternet_verdicts
    if done == [*before, "broadcast_context"]:
        yield "attention", lambda broadcast, plain: broadcast_verdicts(one.name, plain, broadcast)
    trained_on = [(s.run.model.get("training") or {}).get("data") for s in (one, other)]
    augmented = (one.augmentation, other.augmentation)
    if done == before and trained_on[0] == trained_on[1] and augmented == ("strong", "weak"):
        yield "prediction", augmentation_verdicts


def _is_cnn(subject: RunSubject) -> bool:
    return "conv" in subject.card.kinds and "msa" not in subject.card.kinds


def _is_transformer(subject: RunSubject) -> bool:
    return "msa" in subject.card.kinds and "conv" not in subject.card.kinds


def _operations(subject: RunSubject) -> list[str]:
    return [str(entry.get("operation")) for entry in subject.run.model.get("surgery") or []]


def _origin(subject: RunSubject) -> str | None:
    made = subject.run.model.get("origin")
    return made["name"] if made else None
