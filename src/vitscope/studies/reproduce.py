"""`vitscope reproduce C7 --scale cpu`: every statement of the papers as a study, with the rule fixed before the run.

All cards share a store and are one pool of jobs (`studies.pool`): a model which several of them need is trained once,
and no worker is idle at the end of a card. The first seed of every card comes first, then the second, and so on: the
table fills from the top, and its intervals shrink as seeds come in.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from vitscope.core.arguments import Count, CountFromZero, NotNegative, SeedCount, checked
from vitscope.core.errors import VitscopeError
from vitscope.results.claim_record import ClaimRecord, revised
from vitscope.results.provenance import now
from vitscope.results.study_result import FILE
from vitscope.studies.cards import ClaimCard, card_study, list_cards
from vitscope.studies.cost import read_budget
from vitscope.studies.engines import Engine, check_engine
from vitscope.studies.pool import Pooled, do_studies
from vitscope.studies.run import STORE, StudyRequest
from vitscope.studies.scales import Scale, ScaleName, read_scale

OUT = Path("runs/reproduce")


@checked
def reproduce(
    claims: Sequence[str] = (),
    scale: ScaleName = "cpu",
    seeds: SeedCount | None = None,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] = STORE,
    engine: Engine = "local",
    workers: Count | None = None,
    address: str | None = None,
    *,
    cpus_per_job: Count = 1,
    gpus_per_job: NotNegative | None = None,
    budget: str | None = None,
    retries: CountFromZero = 1,
    renew: bool = False,
    progress: bool = True,
) -> list[ClaimRecord]:
    """Put statements of the papers to the test.

    Args:
        claims: Such as "C7", or a whole section, "C"; default: all.
        scale: How large: "smoke" (seconds, decides nothing), "cpu" (hours of one core), "paper" (as the papers did).
        seeds: Trainings of every arm, instead of the scale's.
        out: A folder per claim goes there; default: runs/reproduce/SCALE.
        store: Folder for trained models and results, which all claims and studies share.
        engine: Who does the jobs; see `study`.
        workers: Jobs at once; see `study`.
        address: Of the Ray cluster.
        cpus_per_job: Threads of each job.
        gpus_per_job: GPUs of each job.
        budget: A time such as "6h", for all claims together.
        retries: How often a job that failed is tried again.
        renew: Go on with cards that were changed since they have results; that is written down.
        progress: Show on stderr where it stands.

    Returns:
        What is known of each claim.

    Raises:
        VitscopeError: A card was changed after results were there, and `renew` is not given.
    """
    chosen, size = list_cards(claims), read_scale(scale)
    folder = Path(out) if out is not None else OUT / scale
    most = seeds or size.seeds
    seconds = None if budget is None else read_budget(budget)
    check_engine(engine, workers, address)
    if folder.exists() and not folder.is_dir():
        raise VitscopeError(f"out is '{folder}', a file; expected a folder for what is found")
    for card in chosen:
        register(card, size, folder, renew)
    request = StudyRequest(
        "",
        store,
        engine,
        workers,
        address,
        cpus_per_job,
        gpus_per_job,
        retries=retries,
        progress=progress,
    )
    studies = [
        Pooled(card.claim, partial(card_study, card, size), folder / card.claim, _done(folder / card.claim))
        for card in chosen
        if scale in card.scales
    ]
    do_studies(studies, most, request, seconds)
    return [record for card in chosen if (record := ClaimRecord.load(folder / card.claim)) is not None]


def register(card: ClaimCard, scale: Scale, folder: Path, renew: bool = False) -> None:
    """Write a card down before anything of it is done; refuses one that was changed since it has results."""
    place, digest = folder / card.claim, registered_digest(card, scale)
    before = ClaimRecord.load(place)
    if before is not None and before.scale != scale.name:
        raise VitscopeError(
            f"{place} holds {card.claim} at scale {before.scale}; give another folder for scale {scale.name}"
        )
    revisions = before.revisions if before else ()
    if before is not None and before.digest != digest and (before.study is not None or before.revisions):
        if not renew:
            raise VitscopeError(
                f"card {card.claim} was changed since its results in {place} were made, which makes them void; take it "
                "back, or judge them anew by the changed card: renew (--renew), which stays written there"
            )
        revisions = revised(before)
        (place / FILE).unlink(missing_ok=True)  # judged by other rules
    unchanged = before is not None and before.digest == digest
    ClaimRecord(
        card.claim,
        card.title,
        card.statement,
        card.definition,
        card.published,
        digest,
        scale.name,
        scale.about,
        scale.limits,
        f"vitscope reproduce {card.claim} --scale {scale.name}",
        possible=scale.name in card.scales,
        verdicts=scale.verdicts,
        registered=before.registered if before and unchanged else now(),
        revisions=revisions,
    ).save(place)


def registered_digest(card: ClaimCard, scale: Scale) -> str:
    """Stands for the card and for everything that its study does at this scale, but for the number of seeds."""
    if scale.name not in card.scales:
        return card.digest
    study = card_study(card, scale, 1).to_dict()
    for arm in study["arms"]:
        arm.pop("seeds")
    text = json.dumps([card.digest, study], sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _done(place: Path) -> int:
    """Seeds that a claim's study has, if nothing of it is missing."""
    record = ClaimRecord.load(place)
    if record is None or record.study is None or record.study.missing:
        return 0
    return min(len(arm["seeds"]) for arm in record.study.study["arms"])
