"""The registry-wide checks, and the coverage tables in docs/ that they fill.

python -m tests.registry --write docs          both tables, about fifteen minutes on two cores python -m
tests.registry --meta vit_* swin_*   some architectures, printed

Meta: every architecture timm lists, on the meta device: is there an anatomy, and is attention found
wherever there is attention? Real: the smallest architecture of each of timm's model modules, with weights
and arithmetic: do the invariants hold?
"""

import argparse
import fnmatch
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import timm
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import vitscope as vs
from tests.invariants import check_all
from vitscope.anatomy import KINDS, Anatomy, own_input_size
from vitscope.core.errors import UnsupportedModel
from vitscope.models import OURS

ATTENTION_NAME = re.compile(r"attention|attn|\bmha\b|multihead", re.I)


@dataclass
class MetaRow:
    """One architecture on the meta device."""

    name: str
    module: str
    parameters: int = 0
    units: int = 0
    msa: int = 0
    mapped: int = 0
    unmapped: int = 0  # units before the head without a map
    attention_modules: int = 0
    seconds: float = 0.0
    problem: str = ""


class NoInitialisation(TorchFunctionMode):
    """On the meta device initial values mean nothing, and drawing them takes longer than all the rest."""

    SKIPPED = frozenset("uniform_ normal_ clamp_ erfinv_ mul_ add_ zero_ fill_ trunc_normal_".split())

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in self.SKIPPED:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def timms_own() -> list[str]:
    """Every architecture of timm, without the ones vitscope registers there."""
    return [name for name in timm.list_models() if name not in OURS]


def build_on_meta(name: str) -> nn.Module:
    """The architecture as timm makes it, without weights."""
    with torch.device("meta"), NoInitialisation():
        return timm.create_model(name, pretrained=False).eval()


def attention_modules(model: nn.Module) -> list[str]:
    """Modules that look like multi-head attention to somebody who reads names: an opinion independent of
    anatomy's."""
    return [
        path
        for path, module in model.named_modules()
        if ATTENTION_NAME.search(type(module).__name__) and _heads(module) and not list_like(module)
    ]


def list_like(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList | nn.Sequential)


def _heads(module: nn.Module) -> int:
    for attribute in ("num_heads", "heads", "n_heads", "num_attention_heads"):
        value = getattr(module, attribute, 0)
        if isinstance(value, int) and value:
            return value
    return 0


def meta_row(name: str) -> MetaRow:
    """Take the anatomy of one architecture on the meta device."""
    row = MetaRow(name, module_of(name))
    start = time.perf_counter()
    try:
        model = build_on_meta(name)
        row.parameters = sum(p.numel() for p in model.parameters())
        row.attention_modules = len(attention_modules(model))
        parts = vs.anatomy(model)
        row.units, row.msa, row.mapped = len(parts), len(parts.of_kind("msa")), len(parts.mapped)
        row.unmapped = sum(u.map_shape is None and u.kind != "head" for u in parts)
        if not row.mapped:
            row.problem = "no maps"
        elif missed := [path for path in attention_modules(model) if not _covered(path, parts)]:
            row.problem = f"no attention found in {len(missed)} modules, e.g. {missed[0]}"
    except Exception as error:
        row.problem = f"{type(error).__name__}: {error}"[:300]
    row.seconds = round(time.perf_counter() - start, 2)
    return row


def _covered(path: str, parts: Anatomy) -> bool:
    """Some unit that attends (or mixes without probabilities), or the head, works in the module or around it."""
    owners = [u.module for u in parts if u.kind in ("msa", "mixer", "head")]
    return any(path == o or path.startswith(f"{o}.") or o.startswith(f"{path}.") or not o for o in owners)


def module_of(name: str) -> str:
    return timm.models._registry._model_to_module[name]


def meta_table(names: list[str], workers: int = 2) -> pd.DataFrame:
    """One row per architecture, worked through by several processes."""
    with ProcessPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        rows = []
        for i, row in enumerate(pool.map(meta_row, names, chunksize=4), 1):
            rows.append(asdict(row))
            if i % 50 == 0 or row.problem:
                print(f"{i}/{len(names)} {row.name} {row.problem}", file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


@dataclass
class RealRow:
    """The smallest architecture of one of timm's modules, with arithmetic."""

    module: str
    name: str
    input_size: str = ""
    units: int = 0
    kinds: str = ""
    seconds: float = 0.0
    problem: str = ""


def real_row(name: str, **arguments: Any) -> RealRow:
    """Check every invariant on one architecture with random weights, made with these arguments."""
    torch.manual_seed(0)
    row = RealRow(module_of(name), name)
    start = time.perf_counter()
    try:
        model = timm.create_model(name, pretrained=False, **arguments).eval()
        randomise_zeros(model)
        size, parts = affordable_anatomy(model)
        row.input_size = "x".join(map(str, size))
        row.units = len(parts)
        row.kinds = ", ".join(f"{len(parts.of_kind(k))} {k}" for k in KINDS if parts.of_kind(k))
        check_all(model, parts, torch.randn(3, *size))
    except AssertionError as error:
        row.problem = str(error).split("\n")[0][:200] or "assertion"
    except Exception as error:
        row.problem = f"{type(error).__name__}: {error}".split("\n")[0][:200]
    row.seconds = round(time.perf_counter() - start, 2)
    return row


def affordable_anatomy(model: nn.Module) -> tuple[tuple[int, int, int], Anatomy]:
    """The anatomy at the model's own input size; of very large ones at the smallest of a few sizes they take."""
    own = own_input_size(model)
    large_model = sum(p.numel() for p in model.parameters()) > 100e6
    smaller = [96, 112, 128, 192] if large_model else [224, 256] if own[1] > 256 else []
    for side in smaller:
        size = (own[0], side, side)
        try:
            return size, vs.anatomy(model, size)
        except UnsupportedModel:
            continue
    return own, vs.anatomy(model, own)


def randomise_zeros(model: nn.Module) -> None:
    """Give parameters that start at zero (heads, layer scales, class tokens) values, so that nothing is
    hidden by a factor of zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and not parameter.any():
                parameter.normal_(std=0.02)


def smallest_of_each_module(table: pd.DataFrame) -> list[str]:
    """The architecture with the fewest parameters of each module of timm."""
    return table.sort_values(["parameters", "name"]).groupby("module").name.first().tolist()


def real_table(names: list[str], workers: int = 2) -> pd.DataFrame:
    """One row per architecture."""
    with ProcessPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        rows = []
        for row in pool.map(real_row, names):
            rows.append(asdict(row))
            print(row.module, row.name, row.seconds, row.problem, file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


def write_tables(folder: Path, meta: pd.DataFrame, real: pd.DataFrame) -> None:
    """docs/coverage.md and the two tables behind it."""
    meta.drop(columns="seconds").to_csv(folder / "coverage_meta.csv", index=False)
    real.drop(columns="seconds").to_csv(folder / "coverage_real.csv", index=False)
    found, held = int((meta.problem == "").sum()), int((real.problem == "").sum())
    lines = [
        "# Coverage of timm's registry",
        "",
        f"Written by `make docs-tables` with timm {timm.__version__}, torch {torch.__version__.split('+')[0]}.",
        "",
        f"- Without weights (meta device), every architecture: **{found} of {len(meta)}** "
        f"({100 * found / len(meta):.2f} %) have an anatomy with maps, and attention where there is "
        "attention. All rows: [coverage_meta.csv](coverage_meta.csv).",
        "- With weights and arithmetic, the smallest architecture of each model module: the invariants hold "
        f"on **{held} of {len(real)}**.",
        "",
        "| module | architecture | input | units | invariants |",
        "|---|---|---|---|---|",
    ]
    for row in real.itertuples():
        lines.append(
            f"| {row.module} | {row.name} | {row.input_size} | {row.kinds} | {row.problem or 'hold'} |"
        )
    bad = meta[meta.problem != ""]
    if len(bad):
        lines += [
            "",
            "Architectures without an anatomy:",
            "",
            "| architecture | what was not understood |",
            "|---|---|",
        ]
        lines += [f"| {row.name} | {row.problem} |" for row in bad.itertuples()]
    (folder / "coverage.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, help="folder for the tables")
    parser.add_argument("--meta", nargs="*", help="only these architectures, without weights")
    parser.add_argument("--real", nargs="*", help="only these architectures, with weights")
    options = parser.parse_args()
    if options.real:
        print(real_table(options.real).to_string())
        return
    names = timms_own()
    if options.meta:
        names = [n for n in names if any(fnmatch.fnmatch(n, p) for p in options.meta)]
    meta = meta_table(names)
    print(meta[meta.problem != ""].to_string())
    if options.write:
        write_tables(options.write, meta, real_table(smallest_of_each_module(meta)))


if __name__ == "__main__":
    main()
