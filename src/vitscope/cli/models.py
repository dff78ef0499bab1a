"""`vitscope models`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from rich.table import Table

_MOST = 40  # models whose size is counted without being asked to


@dataclass(frozen=True)
class Options:
    """List the models that can be named.

    FLOPs are those of one image, two per multiply-add of convolutions and matrix products; "-" where a model needs its
    weights to find its way through a forward pass (they are counted without weights here;
    vitscope.anatomy.flops.count_flops counts any model).
    """

    pattern: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[PATTERN]")] = None
    """Which ones, as in 'vit_*' or 'tv:*'; default: the ones of vitscope, and how many others there are."""
    sizes: bool = False
    """Count parameters and FLOPs however many models match (about half a minute per hundred)."""


def run(options: Options) -> None:
    """Print a table of name, parameters, FLOPs, input and source; of many models the names alone."""
    from rich.console import Console

    from vitscope.core.errors import VitscopeError
    from vitscope.models import OURS, list_models

    console = Console()
    pattern = options.pattern
    names = list(OURS) if pattern is None else list_models(pattern) or list_models(f"*{pattern}*")
    if not names:
        raise VitscopeError(f"no model matches '{pattern}'; try a shorter one, as in 'resnet*' or 'tv:*'")
    if len(names) <= _MOST or options.sizes:
        console.print(_table(names))
    else:
        print("\n".join(names))
        print(f"{len(names)} models; narrow the pattern, or add --sizes, to see how large they are")
    if pattern is None:
        others = [name for name in list_models() if name not in OURS]
        torchvision = sum(name.startswith("tv:") for name in others)
        console.print(
            f"and {len(others) - torchvision} of timm, {torchvision} of torchvision "
            "(vitscope models 'vit_*', vitscope models 'tv:*'), "
            "hf:OWNER/NAME or hf:FOLDER, package.module:factory, and run folders",
            markup=False,
            highlight=False,
        )


def _table(names: list[str]) -> "Table":
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from vitscope.models import describe

    table = Table("name", "parameters", "FLOPs", "input", "source", box=None, pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for name in track(names, "counting", console=Console(stderr=True), transient=True):
        info = describe(name)
        table.add_row(
            name,
            f"{info.parameters / 1e6:.2f} M",
            "-" if info.flops is None else f"{info.flops / 1e9:.2f} G",
            "x".join(map(str, info.input_size)),
            info.source,
        )
    return table
