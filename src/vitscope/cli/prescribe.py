"""`vitscope prescribe RUN [--apply --epochs N]`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import ModelOptions
from vitscope.core.arguments import Device, Epochs, Fraction, Number, Seed
from vitscope.core.errors import VitscopeError

if TYPE_CHECKING:
    from vitscope.prescribe import Prescription, Prescriptions, Treatment

_COLOURS = {"prescribed": "green", "not needed": "dim", "impossible": "red", "unknown": "yellow"}
_OF_APPLYING = ("only", "epochs", "data", "fraction", "recipe", "out", "seed", "device")


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """Propose operations from a diagnosis, with the evidence and the cost; --apply does them and looks again.

    For example: `vitscope diagnose resnet_mini --exams all --out runs/a`, then `vitscope prescribe runs/a`
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder of vitscope diagnose."""
    model: str | None = None
    """The model that was examined, if the run does not lead to it."""
    apply: bool = False
    """Operate, train the operated and, as a control, the untouched model, examine both again, write a page."""
    only: tuple[str, ...] = ()
    """Rules to apply, prescribed or not; default: all that are prescribed."""
    epochs: Epochs | None = None
    """With --apply: the budget of both trainings."""
    data: str | None = None
    """With --apply: what to train on; default: what the run was examined on, whose training split is taken."""
    fraction: Fraction = 1.0
    """With --apply: part of the training images to use, the same of every class."""
    recipe: str = "mini"
    """With --apply: a named recipe, or a YAML file."""
    out: Path | None = None
    """With --apply: the folder to write; default: RUN-treated. An interrupted treatment goes on."""
    seed: Seed = 0
    """With --apply: decides new weights and everything random in the trainings."""
    device: Device | None = None
    """With --apply: cpu, cuda ...; default: a GPU if there is one."""
    output: int | str | None = None
    """Which output holds the class scores, if the run does not say so: a name such as logits, or a place from 0."""
    mean: tuple[Number, ...] | None = None
    """What was subtracted from pixels from 0 to 1, per channel, if neither the run nor the model says so."""


def run(options: Options) -> None:
    """Print what the rules say; with --apply, treat and print what it did."""
    import torch

    from vitscope.core import distributed
    from vitscope.prescribe import apply, prescribe

    if options.apply and options.epochs is None:
        raise VitscopeError("--apply trains two models: state the budget, for example --epochs 1")
    if not options.apply:
        _refuse_without_apply(options)
    said: dict[str, Any] = {name: getattr(options, name) for name in ("output", "mean", "std", "trust_code")}
    with distributed.process_group(options.timeout_minutes), notes_as_typed("prescribe", Options):
        told = _print if distributed.is_main() else None
        if not options.apply:
            found = prescribe(options.run, options.model, **said)
            if told is not None:
                told(found)
            return
        assert options.epochs is not None
        treatment = apply(
            options.run,
            options.epochs,
            options.data,
            options.only,
            options.out,
            options.recipe,
            options.model,
            options.fraction,
            options.seed,
            options.device or ("cuda" if torch.cuda.is_available() else "cpu"),
            told=told,
            **said,
        )
        if distributed.is_main():
            _print_treatment(treatment)


def _refuse_without_apply(options: Options) -> None:
    for name in _OF_APPLYING:
        value = getattr(options, name)
        if value != Options.__dataclass_fields__[name].default:
            raise VitscopeError(f"--{name} is about applying; add --apply, or leave it out")


def _print(found: "Prescriptions") -> None:
    from rich.markup import escape
    from rich.table import Table

    from vitscope.report.console import wide_console

    console = wide_console()
    console.print(f"[bold]{escape(found.model)}[/bold] ({escape(found.run)})", highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    for p in found.rules:
        lines = [p.reason, *(f"  {evidence}" for evidence in p.evidence), *_details(p)]
        table.add_row(p.rule, f"[{_COLOURS[p.state]}]{p.state}[/]", escape("\n".join(lines)))
    console.print(table)
    for p in found.prescribed:
        console.print(f"{p.rule} ({p.claim}): {p.papers} {p.caution}", markup=False, highlight=False)
    console.print(f"kept in {Path(found.run) / 'prescription.json'}", markup=False, highlight=False)


def _details(p: "Prescription") -> list[str]:
    """Of what is prescribed: what it does and costs, and what would make it more exact."""
    if p.state != "prescribed":
        return []
    lines = []
    if p.operation is not None:
        words = [p.operation, *(f"{key}={_word(value)}" for key, value in p.arguments.items())]
        lines.append(f"  do: {' '.join(words)}")
    if p.cost is not None:
        size, work = _change(*p.cost.parameters), _change(*p.cost.flops)
        moved = f"{p.cost.largest_change:.2g} (their standard deviation is {p.cost.output_scale:.2g})"
        lines.append(
            f"  costs {size} parameters, {work} FLOPs; before training, outputs move by at most {moved}"
        )
    if p.missing:
        lines.append(f"  where, could be told better by: {', '.join(p.missing)}")
    return lines


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _change(before: int, after: int) -> str:
    return f"{100 * (after / before - 1):+.2f} %" if before else "no"


def _print_treatment(treatment: "Treatment") -> None:
    from rich.markup import escape
    from rich.table import Table

    from vitscope.prescribe.outcomes import outcomes
    from vitscope.report.console import wide_console
    from vitscope.results.numbers import with_interval

    console = wide_console()
    table = Table("", *treatment.results, "after - control", box=None, pad_edge=False)
    for row in outcomes(treatment):
        cells = ["–" if one is None else escape(with_interval(one)) for one in row.arms.values()]
        effect = "not paired"
        if row.difference is not None:
            clear = " *" if row.difference.low > 0 or row.difference.high < 0 else ""
            effect = escape(with_interval(row.difference, difference=True)) + clear
        table.add_row(f"[bold]{row.name}[/bold]" if row.aimed else row.name, *cells, effect)
    done = ", ".join(str(p.operation) for p in treatment.applied)
    console.print(f"\n{done}; {treatment.budget}", markup=False, highlight=False)
    console.print(table)
    console.print(
        "[dim]value \\[95 % interval]; first what the rule is about; control: not operated on, trained for the same "
        "budget; * leaves out 0[/dim]"
    )
    console.print(f"the page: {treatment.page}", markup=False, highlight=False)
