"""`vitscope evaluate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import ExamOptions
from vitscope.cli.tell import tell
from vitscope.cli.words import epilogue, expand
from vitscope.core.arguments import Positive, Seed

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.table import Table

    from vitscope.engine.evaluate import Evaluation

_USUAL = {"model", "minus", "exam", "kind", "condition", "quantity", "value", "low", "high", "n"}


__all__ = ["Options", "epilogue", "expand", "run"]


@dataclass(frozen=True, kw_only=True)
class Options(ExamOptions):
    """Evaluate models on the same images: how good, how calibrated and how robust their predictions are.

    For example: `vitscope evaluate resnet_mini vit_mini --data fashion --exams prediction corruption`
    """

    models: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...", help_behavior_hint="")
    ]
    """Names (see: vitscope models), functions that make them (package.module:factory), or run folders; the others are
    compared with the first."""
    labels: str | None = None
    """Published labels: imagenet (folders are WordNet ids), numeric (folders are numbers), real:PATH (ReaL)."""
    classes: str | None = None
    """Which outputs may be chosen: present (classes that have images), or a file that names them; default: all."""
    exams: tuple[str, ...] = ()
    """Which exams, for example: prediction corruption; default, and all: every one but the slow."""
    temperature: Positive | Literal["fit"] | None = None
    """Divide logits by this number; fit: find the best on half of the images, and report what it does on the other."""
    cache: bool = True
    """For corruption: keep corrupted images for the next run and other models (if they take less than 4 GB)."""
    seed: Seed = 0
    """Decides which images a limit takes, and everything that is drawn."""
    out: Path | None = None
    """The run folder, or of several models the folder above theirs; default: runs/evaluate/DATA/MODEL."""


def run(options: Options) -> None:
    """Evaluate each model, print what was found and how models differ, say where the figures are."""
    from vitscope import evaluate
    from vitscope.core import distributed
    from vitscope.data import load_data
    from vitscope.data.refuse_among_images import refuse_among_images
    from vitscope.engine.choose_exams import read_options, with_options
    from vitscope.exams import find_exams
    from vitscope.results.plain_files import refuse_same

    refuse_same(options.models)
    names, own = options.exams or None, read_options(options.options)
    with_options(find_exams(names, purpose="evaluation"), own)  # a misspelt one, before data is loaded
    refuse_among_images(_out(options), options.data)
    with distributed.process_group(options.timeout_minutes), notes_as_typed("evaluate", Options):
        found = evaluate(
            options.models,
            load_data(options.data, split=options.split, skip_broken=options.skip_broken),
            names,
            out=_out(options),
            labels=options.labels,
            classes=options.classes,
            temperature=options.temperature,
            cache=None if options.cache else False,
            options=own,
            **options.of_images(),
            **options.of_models(),
        )
        if distributed.is_main():
            _print(found)


def _out(options: Options) -> Path:
    from vitscope.results.plain_files import default_folder

    models = tuple(dict.fromkeys(options.models))
    return options.out or default_folder("evaluate", options.data, options.split, models)


def _print(found: "Evaluation") -> None:
    from vitscope.report.console import EVIDENCE, wide_console
    from vitscope.results.numbers import with_interval

    def signed(row: Any) -> str:
        clear = " *" if row.low > 0 or row.high < 0 else ""
        return f"{with_interval(row, difference=True)}{clear}"

    console, models = wide_console(), list(found.results)
    console.print(_grid(found.table(), models, "", with_interval))
    console.print(f"[dim]value \\[95 % interval]; {EVIDENCE}[/dim]")
    if len(models) > 1:
        console.print()
        console.print(_grid(found.differences(), models[1:], f"minus {models[0]}", signed))
        console.print("[dim]difference \\[95 % interval over the same images]; * leaves out 0[/dim]")
        for model in models[1:] if "prediction" in found.results[models[0]] else ():
            flips = found.flips(model)
            console.print(
                f"{model} is right about {flips.gained} images that {models[0]} gets wrong, and wrong about "
                f"{flips.lost} that it gets right (McNemar's exact test: p = {flips.p_value:.2g})",
                highlight=False,
                markup=False,
            )
    kept = " ".join(map(str, found.folders.values()))
    figures = " ".join(str(folder / "figures") for folder in found.folders.values())
    tell(
        f"figures in {figures}",
        f"kept in {kept}",
        f"make a page of it: vitscope report {kept} -o report.html",
    )


def _told(column: str, value: Any) -> str:
    """What an exam's own column adds to the name of a quantity."""
    import pandas as pd

    if pd.isna(value):
        return ""
    if pd.api.types.is_bool(value):
        return column if value else ""
    return f"{column} {value:g}" if isinstance(value, float | int) else f"{column} {value}"


def _grid(rows: "DataFrame", models: list[str], title: str, cell: Any) -> "Table":
    """A row for every quantity of every exam, a column for every model."""
    from rich.markup import escape
    from rich.table import Table

    from vitscope.report.console import counts_of
    from vitscope.results.numbers import label

    table = Table(title, *models, "n", box=None, pad_edge=False)
    own = [column for column in rows.columns if column not in _USUAL]
    for exam, part in rows.groupby("exam", sort=False):
        table.add_row(f"[bold]{exam}[/bold]")
        numbers: dict[str, dict[str, Any]] = {}
        for row in part.itertuples():
            told = [_told(column, getattr(row, column)) for column in own]
            what = ", ".join(filter(None, [label(str(exam), row).replace("_", " "), *told]))
            numbers.setdefault(what, {})[str(row.model)] = row
        for what, by_model in numbers.items():
            cells = [escape(cell(by_model[model])) if model in by_model else "" for model in models]
            counts = counts_of(by_model[model].n for model in models if model in by_model)
            table.add_row(f"  {what}", *cells, counts)
    return table
