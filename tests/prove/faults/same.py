"""What two folders of the same command differ in: every number is compared to the bit, times are not."""

import json
import lzma
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file

# what is another one each time: when, how long, with which words, and sums over files that hold it
TIMES = frozenset(
    "time started finished seconds command versions earlier sha256 images_per_second git_revision platform "
    "seconds_per_step waiting files began ended minutes reason host pid cpu_seconds peak_bytes".split()
)
IGNORED = (".lock", "run.json", "manifest.json")
PLACES = (
    "whole",
    "whole-2",
    "killed",
    "disturbed",
    "first",
    "second",
)  # what the folders above those of commands are called
KINDS = (".json", ".csv", ".safetensors", ".xz", ".npy")


def differences(whole: Path, other: Path) -> list[str]:
    """In words; none if the second folder holds what the first one does."""
    found = []
    there = {name: _files(folder) for name, folder in (("whole", whole), ("other", other))}
    for name in sorted(there["whole"] - there["other"]):
        found.append(f"{name} is missing")
    for name in sorted(there["other"] - there["whole"]):
        found.append(f"{name} is there in addition")
    for name in sorted(there["whole"] & there["other"]):
        if problem := _different(whole / name, other / name):
            found.append(f"{name}: {problem}")
    return found


def _files(folder: Path) -> set[str]:
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {
        str(path)
        for path in found
        if (path.suffix in KINDS or path.name.endswith(".part")) and path.name not in IGNORED
    }


def _different(a: Path, b: Path) -> str:
    if a.suffix == ".safetensors":
        one, two = load_file(a), load_file(b)
        if one.keys() != two.keys():
            return f"other tensors: {sorted(one.keys() ^ two.keys())[:3]}"
        wrong = [name for name in one if not torch.equal(_bits(one[name]), _bits(two[name]))]
        return f"tensors differ: {wrong[:3]}" if wrong else ""
    if a.suffix == ".csv":
        one, two = (_table(path) for path in (a, b))
        if list(one) != list(two) or len(one) != len(two):
            return f"{len(one)} and {len(two)} rows, columns {list(one)} and {list(two)}"
        wrong = [name for name in one if name not in TIMES and not one[name].equals(two[name])]
        return f"columns differ: {wrong}" if wrong else ""
    if a.suffix == ".npy":
        return "" if a.read_bytes() == b.read_bytes() else "bytes differ"
    return _in_values(_json(a), _json(b), "")


def _table(path: Path) -> pd.DataFrame:
    """A table as text, without the rows that tell of times."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table[~table["quantity"].map(_is_time)].reset_index(drop=True) if "quantity" in table else table


def _is_time(quantity: object) -> bool:
    return isinstance(quantity, str) and quantity.rpartition(".")[2] in TIMES


def _json(path: Path) -> Any:
    """What a file holds; a path below the folder of the command is the same wherever that is."""
    content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    place = next(parent for parent in path.parents if parent.parent.name in PLACES)
    return json.loads(content.replace(str(place).encode(), b"."))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.dim() else tensor.reshape(1).view(torch.uint8)


def _in_values(one: Any, two: Any, place: str) -> str:
    """The first place where two JSON values differ; NaN is equal to NaN."""
    if isinstance(one, dict) and isinstance(two, dict):
        if one.keys() - TIMES != two.keys() - TIMES:
            return f"{place} has {sorted(one.keys() ^ two.keys())[:3]} in one of them only"
        inner = (_in_values(one[key], two[key], f"{place}.{key}") for key in one if key not in TIMES)
        return next((problem for problem in inner if problem), "")
    if isinstance(one, list) and isinstance(two, list):
        one, two = ([v for v in values if not _of_time(v)] for values in (one, two))
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        inner = (_in_values(a, b, f"{place}[{i}]") for i, (a, b) in enumerate(zip(one, two, strict=True)))
        return next((problem for problem in inner if problem), "")
    return "" if one == two or (one != one and two != two) else f"{place} is {two!r} instead of {one!r}"[:300]


def _of_time(value: Any) -> bool:
    return isinstance(value, dict) and _is_time(value.get("quantity"))
