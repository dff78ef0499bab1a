"""`vitscope reproduce --dry-run`: every model is built, operated on, shown a batch and trained for a few steps.

So what cannot work is known before the first hour is spent, and what it all would cost. A training that several claims
need is counted once, with the first of them. Where data is not on this machine, stand-ins of its size take its place.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from vitscope.core.errors import VitscopeError
from vitscope.studies.cards import ClaimCard, card_study, list_cards, throughputs
from vitscope.studies.cost import Cost, costs_of, total
from vitscope.studies.graph import Node, Plan, plan_study
from vitscope.studies.rehearsal import Pace, Rehearsal, Speed
from vitscope.studies.reproduce import OUT, STORE
from vitscope.studies.resolve import learned_part
from vitscope.studies.scales import Scale, ScaleName, read_scale
from vitscope.studies.stand_ins import StandIns, with_stand_ins
from vitscope.studies.store import Store

_SHORT = Pace(steps=2, images=2, batch=2)  # for the papers' models where there is no GPU


@dataclass(frozen=True)
class ClaimCost:
    """What a claim costs beyond the claims before it.

    Attributes:
        claim: Which.
        arms: How many it has.
        trainings: How many are missing, and not counted with a claim before it.
        seconds: Of one worker of this machine, for trainings and exams.
        disk: Bytes.
        known: Whether that is the time of all exams; if not, those with passes of their own come on top.
        note: What is not as it should be.
        published_seconds: Time of the trainings whose throughput the papers state, by that.
        published_trainings: How many these are.
    """

    claim: str
    arms: int
    trainings: int = 0
    seconds: float = 0.0
    disk: int = 0
    known: bool = True
    note: str = ""
    published_seconds: float = 0.0
    published_trainings: int = 0


def rehearse_claims(
    claims: Sequence[str] = (),
    scale: ScaleName = "cpu",
    seeds: int | None = None,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    pace: Pace | None = None,
) -> list[ClaimCost]:
    """Try every arm of these claims out, and say what they cost; `reproduce` documents the arguments.

    Args:
        claims: Such as "C7", or a section; default: all.
        scale: How large.
        seeds: Trainings of every arm.
        out: Where results would go.
        store: Where what is done already is looked for.
        pace: How much is tried out of each arm; default: a few steps, of small batches where the models are the
            papers' and there is no GPU.
    """
    size = read_scale(scale)
    folder = Path(out) if out is not None else OUT / scale
    if pace is None:
        pace = _SHORT if scale == "paper" and not torch.cuda.is_available() else Pace()
    dry_run = _DryRun(size, seeds, Store(store or folder / STORE), pace)
    return [dry_run.cost(card) for card in list_cards(claims)]


class _DryRun:
    """One after another, with what was counted and measured for claims before."""

    def __init__(self, scale: Scale, seeds: int | None, store: Store, pace: Pace) -> None:
        self.scale, self.seeds, self.store, self.pace = scale, seeds, store, pace
        self.images = StandIns(scale)
        self.counted: set[str] = set()
        self.speeds: dict[str, Speed] = {}

    def cost(self, card: ClaimCard) -> ClaimCost:
        """What a claim costs; what cannot be built is a note, so that the others are looked at, too."""
        if self.scale.name not in card.scales:
            note = f"at scale {' or '.join(card.scales)} only"
            return ClaimCost(card.claim, len(card.arms), note=note)
        try:
            study, self.images.lacking = with_stand_ins(card_study(card, self.scale, self.seeds), self.scale)
            plan = plan_study(study, self.store, images=self.images)
            for key in self.counted & plan.missing.keys():
                del plan.missing[key]
            rehearsal = Rehearsal(
                study, plan.arms, self.store, self.images, self.pace, self.speeds, weights=False
            )
            costs = costs_of(plan, rehearsal)
        except VitscopeError as error:
            return ClaimCost(card.claim, len(card.arms), known=False, note=f"cannot be done: {error}")
        self.counted |= plan.missing.keys()
        return self._sum_up(card, plan, costs)

    def _sum_up(self, card: ClaimCard, plan: Plan, costs: Mapping[str, Cost]) -> ClaimCost:
        seconds, disk, known = total(costs.values())
        trained = [node for node in plan.missing.values() if node.kind == "train"]
        published = throughputs(card, self.scale)
        stated = [self._shown(plan, node) / published[node.arm] for node in trained if node.arm in published]
        note = "; ".join(f"{name} is not there: {what}" for name, what in self.images.lacking.items())
        return ClaimCost(
            *(card.claim, len(card.arms), len(trained), seconds, disk, known, note),
            published_seconds=sum(stated),
            published_trainings=len(stated),
        )

    def _shown(self, plan: Plan, node: Node) -> float:
        """Images that a training shows to its model."""
        arm = plan.study.arm(node.arm)
        images = self.images.open(learned_part(arm, plan.study))
        return len(images) * plan.arms[node.arm].recipe.total_epochs
