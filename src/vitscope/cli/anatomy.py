"""`vitscope anatomy`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vitscope.cli.as_typed import as_typed, notes_as_typed
from vitscope.cli.options import CodeOptions
from vitscope.core.arguments import Side

if TYPE_CHECKING:
    from rich.table import Table
    from torch import nn

    from vitscope.anatomy import Anatomy, Unit


@dataclass(frozen=True)
class Options(CodeOptions):
    """Print what a model is made of: its units in the order they run."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A name (see: vitscope models), a function that makes it (package.module:factory), or a run folder."""

    img_size: Side | None = None
    """Side of the images, if the model should not have its own."""

    output: int | str | None = None
    """Which output holds the class scores, where that cannot be decided: a name such as logits, or a place from 0."""

    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    """Watch the model once, without weights where it can be built so, and print its units."""
    from vitscope.anatomy import anatomy, own_input_size
    from vitscope.report.console import SafeConsole

    with notes_as_typed("anatomy", Options):
        model, side = _model(options), options.img_size
        parts = anatomy(model, (own_input_size(model)[0], side, side) if side else None, options.output)
    if options.json:
        document = {
            "model": options.model,
            "input_size": list(parts.input_shape),
            "parameters": sum(p.numel() for p in model.parameters()),
            "units": [unit.describe() for unit in parts],
        }
        if parts.output is not None or parts.undecided:
            document |= {"output": parts.output, "undecided": parts.undecided or None}
        print(json.dumps(document, indent=2))
        return
    console = SafeConsole(width=None if sys.stdout.isatty() else 160)
    console.print(_table(parts))
    console.print(_summary(options.model, model, parts), markup=False, highlight=False)
    if parts.undecided:
        print(f"note: {as_typed(parts.undecided, 'anatomy', Options)}", file=sys.stderr)


def _model(options: Options) -> "nn.Module":
    """On the meta device nothing is allocated or drawn; models that come with files are built for real."""
    from vitscope import create_model
    from vitscope.models.info import needs_values, without_values

    asked: dict[str, Any] = {"img_size": options.img_size, "trust_code": options.trust_code}
    files = options.model.startswith("hf:") or "/" in options.model or Path(options.model).is_dir()
    if files or needs_values(options.model):
        return create_model(options.model, **asked)
    with without_values():
        return create_model(options.model, **asked)


def _table(parts: "Anatomy") -> "Table":
    from rich.table import Table

    in_parts = any(unit.part for unit in parts)
    headings = ("stage", "kind", "unit", "map", "prefix", "heads", "attention", "")
    table = Table(*(["part"] if in_parts else []), *headings, box=None, pad_edge=False)
    for column in (0, 3, 4, 5):
        table.columns[column + in_parts].justify = "right"
    for unit in parts:
        shape = "x".join(map(str, unit.map_shape)) if unit.map_shape else "-"
        counts = [str(count or "") for count in (unit.prefix_tokens, unit.heads)]
        row = (str(unit.stage), unit.kind, unit.name, shape, *counts, _attention(unit), _remark(unit))
        table.add_row(*([unit.part] if in_parts else []), *row)
    return table


def _attention(unit: "Unit") -> str:
    attention = unit.attention
    if attention is None:
        return ""
    if attention.window is None:
        return f"{attention.pattern}, {attention.queries} x {attention.keys}"
    if attention.pattern == "local":
        return f"local, {attention.window[0]}x{attention.window[1]} around each point"
    shift = f" shifted by {attention.shift[0]},{attention.shift[1]}" if any(attention.shift) else ""
    return f"{attention.windows} {attention.pattern}s of {attention.window[0]}x{attention.window[1]}{shift}"


def _remark(unit: "Unit") -> str:
    if unit.downsamples and unit.kind != "stem":
        return "downsamples"
    return "" if unit.residual or unit.kind in ("stem", "head", "subsample") else "no shortcut"


def _summary(name: str, model: "nn.Module", parts: "Anatomy") -> str:
    counts = {kind: len(parts.of_kind(kind)) for kind in dict.fromkeys(unit.kind for unit in parts)}
    size = "x".join(map(str, parts.input_shape))
    output = "" if parts.output is None else f", output {parts.output!r}"
    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return (
        f"\n{name} at {size}{output}: {parameters:.2f} M parameters, {parts[-1].stage + 1} stages, "
        f"{len(parts)} units ({listed})"
    )
