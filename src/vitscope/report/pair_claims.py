"""What the papers say about one kind of model beside another, held against two runs of a page."""

from collections.abc import Callable, Iterator
from typing import Any

from vitscope.claims import (
    Verdict,
    alternet_verdicts,
    augmentation_verdicts,
    broadcast_verdicts,
    noise_verdict,
    transformer_verdicts,
)
from vitscope.core.errors import VitscopeError
from vitscope.report.subject import RunSubject


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
