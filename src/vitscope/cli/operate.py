"""`vitscope operate MODEL --OPERATION [key=value ...] ... --out RUN`."""

import difflib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vitscope.errors import VitscopeError

if TYPE_CHECKING:
    from torch import nn

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


@dataclass(frozen=True)
class Options:
    """Operate on a model and leave it in a run folder."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A name (see: vitscope models), or a run folder."""
    operations: tuple[str, ...] = ()
    """What to do, in order: "alternate budget=4". Shorter: --alternate budget=4 --smooth."""
    out: Path | None = None
    """The run folder to write; without it only the comparison is printed."""
    pretrained: bool = False
    """Start from the weights that come with the name."""
    num_classes: int | None = None
    """Size of the head, if not the model's own."""
    img_size: int | None = None
    """Side of the images, if not the model's own."""
    output: int | str | None = None
    """Which output holds the class scores, where that cannot be decided; kept with the model."""
    seed: int = 0
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
        if not arguments[i].startswith("--") or name not in OPERATIONS:
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


def epilogue() -> str:
    """The operations, for `--help`."""
    width = max(map(len, OPERATIONS))
    lines = [f"  --{name.replace('_', '-'):<{width}}  {what}" for name, what in OPERATIONS.items()]
    return "\n".join(["operations, in the order given, each with key=value words:", *lines])


def run(options: Options) -> None:
    """Operate, print what changed, save."""
    import torch
    from rich.console import Console

    from vitscope.interface import declare
    from vitscope.models import create_model
    from vitscope.surgery import OPERATIONS as FUNCTIONS
    from vitscope.surgery import Before, record

    planned = [read_operation(text) for text in options.operations]
    if not planned:
        raise VitscopeError("nothing to do: name an operation, as in --alternate or --smooth (see --help)")
    if options.out is not None and (options.out / "config.json").exists():
        raise VitscopeError(f"{options.out} holds a model already; give another --out")
    torch.manual_seed(options.seed)
    model = create_model(
        options.model,
        pretrained=options.pretrained,
        num_classes=options.num_classes,
        img_size=options.img_size,
        trust_code=options.trust_code,
    )
    declare(model, output=options.output)
    model.eval()
    before = Before(model)
    already = len(record(model))
    for name, arguments, words in planned:
        _check_arguments(name, FUNCTIONS[name], arguments, words)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        for name, arguments, words in planned:
            model = FUNCTIONS[name](model, *words, **arguments)
    for warning in noted:
        if issubclass(warning.category, UserWarning):
            print(f"vitscope: {warning.message}", file=sys.stderr)
    if len(record(model)) == already:
        raise VitscopeError(f"{options.model} is as it was" + (", nothing was saved" if options.out else ""))
    comparison = before.compare(model)
    console = Console()
    for entry in record(model)[already:]:
        places = ", ".join(entry["places"][:6]) + (" ..." if len(entry["places"]) > 6 else "")
        count = f"{len(entry['places'])} place{'s' if len(entry['places']) > 1 else ''}"
        console.print(f"{entry['operation']}: {count}: {places}", markup=False, highlight=False)
    console.print(_table(comparison))
    if options.out is not None:
        _save(model, options, comparison)
        print(
            f"kept in {options.out}; see: vitscope anatomy {options.out}, vitscope train {options.out} --out ..."
        )


def read_operation(text: str) -> tuple[str, dict[str, Any], list[Any]]:
    """Name, keyword arguments and bare words of "alternate msa=0,1,1,2" or "lesion blocks.3.attn"."""
    name, *words = text.split()
    name = name.replace("-", "_")
    if name not in OPERATIONS:
        near = difflib.get_close_matches(name, OPERATIONS, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(OPERATIONS)}"
        raise VitscopeError(f"no operation '{name}'; {hint}")
    arguments: dict[str, Any] = {}
    bare: list[Any] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            arguments[key.replace("-", "_")] = read_value(value)
        else:
            bare.append(read_value(word))
    return name, arguments, bare


def read_value(text: str) -> Any:
    """A YAML value; "0,1,1,2" is a list."""
    import yaml

    value = yaml.safe_load(f"[{text}]" if "," in text and not text.startswith(("[", "{")) else text)
    return value


def _check_arguments(
    name: str, function: Callable[..., Any], arguments: dict[str, Any], words: list[Any]
) -> None:
    import inspect

    taken = [key for key in inspect.signature(function).parameters if key not in ("model", "example")]
    surplus = [key for key in arguments if key not in taken]
    if surplus or len(words) > len(taken):
        seen = f"'{surplus[0]}='" if surplus else f"{len(words)} words"
        raise VitscopeError(f"{name} takes {', '.join(f'{key}=' for key in taken)}, not {seen}")
    try:
        inspect.signature(function).bind(None, *words, **arguments)
    except TypeError as error:  # something it cannot do without, or the same twice
        flag = f"--{name.replace('_', '-')}"
        raise VitscopeError(f"{flag}: {error}; e.g. {flag} {taken[0]}=VALUE") from error


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


def _save(model: "nn.Module", options: Options, comparison: "Comparison") -> None:
    import dataclasses

    from vitscope.data import data_config
    from vitscope.models import save_model
    from vitscope.results import Run
    from vitscope.surgery import record

    assert options.out is not None
    config = data_config(model)
    facts = {"name": options.model, "parameters": comparison.parameters[1], "input_size": config.input_size}
    with Run.start(options.out, options=options, seed=options.seed, device="cpu", model=facts) as run:
        save_model(model, options.out, data=config)
        run.note(surgery=record(model), comparison=dataclasses.asdict(comparison))
