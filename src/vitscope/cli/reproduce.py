"""`vitscope reproduce [CLAIM...]`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import JobOptions
from vitscope.cli.tell import tell
from vitscope.core.arguments import SeedCount
from vitscope.core.errors import BadArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitscope.results.claim_record import ClaimRecord


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    """Put statements of the papers to the test: every claim is a study, whose rule stands before it runs.

    What is done is not done again; the same command goes on where it was stopped, and with more seeds.
    """

    claims: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[CLAIM ...]")] = ()
    """Such as C7, or a section, such as C; default: all."""
    scale: Literal["smoke", "cpu", "paper"] = "cpu"
    """How large: seconds, to see that it runs; hours of one core; the papers' models, data and epochs."""
    seeds: SeedCount | None = None
    """Trainings of every arm, instead of the scale's."""
    out: Path | None = None
    """Folder for what is found; default: runs/reproduce/SCALE."""
    renew: bool = False
    """Go on with cards that were changed since they have results; that stays written there."""
    list: bool = False
    """Print the cards, and do nothing."""
    dry_run: bool = False
    """Build every model, read its images and take a step; print what it all would cost, and do none of it."""
    write: Path | None = None
    """Only write what is found so far, as a page (.html) or a table (.md)."""


def run(options: Options) -> None:
    """Do what is missing, print the verdicts, say where the page is."""
    given: dict[str, Any] = {**vars(options)}
    listed, dry_run, write = (given.pop(name) for name in ("list", "dry_run", "write"))
    if sum(map(bool, (listed, dry_run, write))) > 1:
        raise BadArgument(
            "list, dry_run and write each do one thing instead of the studies; give one of them"
        )
    instead = next((name for name in ("list", "dry_run", "write") if getattr(options, name)), None)
    doing = ("budget", "address", "workers", "renew")
    idle = [name for name in doing if getattr(options, name) not in (None, False)]
    if instead and idle:
        flags = [f"--{name.replace('_', '-')}" for name in (idle[0], instead)]
        raise BadArgument(
            f"{flags[0]} is about doing the studies, which {flags[1]} does not; leave one of them out"
        )
    folder = options.out or Path("runs/reproduce") / options.scale
    with notes_as_typed("reproduce", Options):
        if listed:
            _print_cards(options)
        elif dry_run:
            _print_costs(options)
        elif write:
            from vitscope.report.claims_page import write_claims

            tell(f"written to {write_claims(folder, write)}")
        else:
            from vitscope.report.claims_page import write_claims
            from vitscope.studies.reproduce import reproduce

            records = reproduce(**given)
            _print_verdicts(records)
            tell(f"kept in {folder}; open {write_claims(folder, folder / 'claims.html')}")


def _print_cards(options: Options) -> None:
    from vitscope.report.console import wide_console
    from vitscope.studies.cards import list_cards

    from rich.table import Table  # isort: skip

    table = Table("claim", "statement", "arms", "scales", box=None, pad_edge=False)
    for card in list_cards(options.claims):
        table.add_row(card.claim, card.statement, str(len(card.arms)), ", ".join(card.scales))
    wide_console().print(table)


def _print_costs(options: Options) -> None:
    from vitscope.report.console import wide_console
    from vitscope.results.numbers import duration
    from vitscope.studies.dry_run import rehearse_claims

    from rich.table import Table  # isort: skip

    heads = ("claim", "arms", "trainings", "time of one worker", "by the papers' speed", "disk", "note")
    table = Table(*heads, box=None, pad_edge=False)
    for one in rehearse_claims(options.claims, options.scale, options.seeds, options.out, options.store):
        time = ("" if one.known else "more than ") + duration(one.seconds)
        published = f"{duration(one.published_seconds)} ({one.published_trainings} trainings)"
        table.add_row(
            *(one.claim, str(one.arms), str(one.trainings), time),
            *(published if one.published_trainings else "", f"{one.disk / 1e9:.1f} GB", one.note),
        )
    wide_console().print(table)


def _print_verdicts(records: "Sequence[ClaimRecord]") -> None:
    from vitscope.report.console import wide_console

    from rich.table import Table  # isort: skip

    table = Table("claim", "what is compared", "value", "95 % interval", "seeds", "verdict", box=None)
    for record in records:
        for row in record.verdict_rows:
            interval = f"{row['low']:+.4g} to {row['high']:+.4g}" if row["low"] == row["low"] else ""
            verdict = row["verdict"] if record.verdicts else "no verdict at this scale"
            table.add_row(
                record.claim, row["statement"], f"{row['value']:+.4g}", interval, str(row["seeds"]), verdict
            )
    wide_console().print(table)
