"""`vitscope operate MODEL --OPERATION [key=value ...] ... --out RUN`.

vitscope operate RUN --deep-ensemble RUN2 RUN3 --out BOTH            # the average of several models
vitscope operate MODEL --build-up budget=4 data=fashion --out RUN    # searches where MSA blocks go
"""

import sys
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vitscope.cli.tell import tell
from vitscope.core.arguments import Classes, Seed, Side
from vitscope.core.errors import VitscopeError, alike

if TYPE_CHECKING:
    from vitscope.studies.build_up_search import BuildUp
    from vitscope.surgery import Comparison

# name -> what `--help` says; the functions themselves live in vitscope.surgery, which imports torch
OPERATIONS = {
    "alternate": "conv blocks become AlterNet's MSA blocks: msa=0,1,1,2 or budget=4 or last=3",
    "broadcast_context": "Context Broadcasting: kind=cb where=mlp at=end layers=upper",
    "ensemble": "average the probabilities of several stochastic passes: passes=10",
    "extend": "one more unit at the end: msa or mlp",
    "lesion": "leave one unit out: its name",
    "localize": "global attention becomes local: kernel=5",
    "mc_dropout": "dropout that can be on at test time: p=0.3",
    "pool_tokens": "the head reads the mean of the patch tokens, not the class token",
    "smooth": "spatial smoothing before every subsampling",
    "squeeze_excite": "squeeze and excitation at the end of MLPs",
    "temporal": "average over the frames of a stream: rate=0.8 previous=5",
    "uniform_heads": "one attention head becomes uniform: variant=A",
}
# what trains and measures models before it decides, so that it stands alone
SEARCHES = {
    "build_up": "search where MSA blocks improve the model: budget=4 data=fashion recipe=mini epochs=2",
}


@dataclass(frozen=True)
class Options:
    """Operate on a model and leave it in a run folder."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A name (see: vitscope models), a function that makes it (package.module:factory), or a run folder."""
    operations: tuple[str, ...] = ()
    """What to do, in order: "alternate budget=4". Shorter: --alternate budget=4 --smooth."""
    deep_ensemble: tuple[str, ...] = ()
    """Names or run folders of further models: their average with MODEL is operated on and saved."""
    out: Path | None = None
    """The run folder to write; without it only the comparison is printed."""
    pretrained: bool = False
    """Start from the weights that come with the name."""
    num_classes: Classes | None = None
    """Size of the head, if not the model's own."""
    img_size: Side | None = None
    """Side of the images, if not the model's own."""
    output: int | str | None = None
    """Which output holds the class scores, where that cannot be decided; kept with the model."""
    seed: Seed = 0
    """Decides new weights."""
    trust_code: bool = False
    """Run code that a run folder, a YAML of options or a model of Hugging Face names; no file can switch this on."""


def expand(arguments: list[str]) -> list[str]:
    """`--smooth --alternate budget=4` becomes `--operations smooth 'alternate budget=4'`."""
    rest: list[str] = []
    operations: list[str] = []
    i = 0
    while i < len(arguments):
        name = arguments[i].removeprefix("--").replace("-", "_")
        if not arguments[i].startswith("--") or name not in (*OPERATIONS, *SEARCHES):
            _refuse_misspelt(arguments[i], name)
            rest.append(arguments[i])
            i += 1
            continue
        words = [name]
        i += 1
        while i < len(arguments) and not arguments[i].startswith("-"):
            words.append(arguments[i])
            i += 1
        operations.append(" ".join(words))
    return [*rest, "--operations", *operations] if operations else rest


def _refuse_misspelt(flag: str, name: str) -> None:
    """Refuse an option that looks like an operation; the others are looked at later."""
    own = [field.name for field in fields(Options)]
    near = alike(name, [*own, *OPERATIONS, *SEARCHES])
    if flag.startswith("--") and near and near[0] not in own:
        raise VitscopeError(f"no option {flag}; did you mean --{near[0].replace('_', '-')}?")


def epilogue(arguments: list[str]) -> str:
    """The operations, for `--help`."""
    width, lines = max(map(len, OPERATIONS)), []
    for heading, told in (
        ("operations, in the order given, each with key=value words:", OPERATIONS),
        ("searches, each by itself:", SEARCHES),
    ):
        lines += [heading, *(f"  --{name.replace('_', '-'):<{width}}  {what}" for name, what in told.items())]
    return "\n".join(lines)


def run(options: Options) -> None:
    """Operate, print what changed, save."""
    from vitscope.cli.as_typed import as_typed, notes_as_typed
    from vitscope.models.create import random_weights
    from vitscope.models.errors import TwinWarning
    from vitscope.models.trust import names_code
    from vitscope.report.console import SafeConsole
    from vitscope.surgery.tools.operate import find_operation, operate, read_operation

    if any(text.split()[:1] in (["build_up"], ["build-up"]) for text in options.operations):
        with notes_as_typed("operate", Options):
            _search(options)
        return
    if not options.operations and not options.deep_ensemble:
        raise VitscopeError("nothing to do: name an operation, as in --alternate or --smooth (see --help)")
    planned = []
    for text in options.operations:
        name = find_operation(text.split()[0]) if text.split() else ""
        planned.append(read_operation(text, flag=f"--{name.replace('_', '-')}"))
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        given = {name: value for name, value in vars(options).items() if name not in ("model", "operations")}
        operated = operate(options.model, *({name: arguments} for name, arguments in planned), **given)
    noted = [warning for warning in noted if issubclass(warning.category, UserWarning)]
    notes = [str(warning.message) for warning in noted]
    if not operated.changed:
        unsaved = f"{options.model} is as it was" + (", nothing was saved" if options.out else "")
        why = "; ".join(str(one.message) for one in noted if not issubclass(one.category, TwinWarning))
        raise VitscopeError(unsaved + (f": {why}" if why else ""))
    made = (options.model, *options.deep_ensemble)
    for note in filter(None, (*notes, *(random_weights(name, options.pretrained) for name in made))):
        print(f"vitscope: {as_typed(note, 'operate', Options)}", file=sys.stderr)
    console = SafeConsole()
    if operated.members > 1:
        names = ", ".join((options.model, *options.deep_ensemble))
        console.print(f"deep_ensemble: {operated.members} models: {names}", markup=False, highlight=False)
    for entry in operated.done:
        places = ", ".join(entry["places"][:6]) + (" ..." if len(entry["places"]) > 6 else "")
        count = f"{len(entry['places'])} place{'s' if len(entry['places']) > 1 else ''}"
        console.print(f"{entry['operation']}: {count}: {places}", markup=False, highlight=False)
    console.print(_table(operated.comparison))
    if options.out is not None:
        trust = " --trust-code" if options.trust_code or any(map(names_code, made)) else ""
        tell(
            f"kept in {options.out}; see: vitscope anatomy {options.out}{trust}, "
            f"vitscope train {options.out} --out ...{trust}"
        )


def _search(options: Options) -> None:
    """Build up, print the table, save."""
    from vitscope import create_model
    from vitscope.core.tensors import seeded
    from vitscope.models.sources.factory import error_text, working_directory_importable
    from vitscope.models.trust import names_code
    from vitscope.report.console import SafeConsole
    from vitscope.studies.build_up import build_up, read_build_up

    if len(options.operations) > 1 or options.deep_ensemble:
        raise VitscopeError("--build-up stands alone; search first, then operate on what it has saved")
    with working_directory_importable():
        arguments = read_build_up(options.operations[0].split()[1:], "--build-up")
    if options.out is None:
        raise VitscopeError(
            "--build-up keeps its candidates and goes on with them; say where: --out runs/build"
        )
    if options.output is not None:
        raise VitscopeError("--output has no effect on --build-up; leave it out")
    settings: dict[str, Any] = {n: getattr(options, n) for n in ("pretrained", "num_classes", "img_size")}
    model: Any = options.model
    if any(settings.values()):
        with seeded(options.seed):
            model = create_model(options.model, trust_code=options.trust_code, **settings)
    try:
        with working_directory_importable():
            found = build_up(
                model, out=options.out, seed=options.seed, trust_code=options.trust_code, **arguments
            )
    except VitscopeError:
        raise
    except Exception as error:
        if "measure" not in arguments:
            raise
        raise VitscopeError(
            f"measure={arguments['measure']} fails with {error_text(error)}; expected a function of (model, out, seed) "
            "that returns one number per image"
        ) from error
    SafeConsole().print(_steps(found))
    counts = ",".join(map(str, found.msa))
    trust = " --trust-code" if options.trust_code or names_code(options.model) else ""
    tell(f"best: msa={counts}, kept in {options.out}; see: vitscope anatomy {options.out}{trust}")


def _steps(found: "BuildUp") -> Any:
    from rich.table import Table

    table = Table("step", "stage", "unit", "msa", "score", "change", "kept", box=None, pad_edge=False)
    for step in found.steps:
        change = f"{step.difference:+.4f} ({step.difference_low:+.4f} to {step.difference_high:+.4f})"
        table.add_row(
            str(step.step),
            "-" if step.stage is None else str(step.stage),
            step.unit or "-",
            "-".join(map(str, step.msa)),
            f"{step.score:.4f} ({step.low:.4f} to {step.high:.4f})",
            "-" if step.stage is None else change,
            "yes" if step.kept else "no",
        )
    return table


def _table(comparison: "Comparison") -> Any:
    from rich.table import Table

    table = Table("", "before", "after", "change", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    parameters, flops = comparison.parameters, comparison.flops
    table.add_row("parameters", f"{parameters[0]:,}", f"{parameters[1]:,}", _percent(*parameters))
    table.add_row("FLOPs/image", f"{flops[0] / 1e9:.3f} G", f"{flops[1] / 1e9:.3f} G", _percent(*flops))
    scale = f"std {comparison.output_scale:.3g}"
    table.add_row("outputs", scale, "", f"at most {comparison.largest_change:.3g}")
    return table


def _percent(before: int, after: int) -> str:
    return f"{100 * (after / before - 1):+.2f} %" if before else "-"
