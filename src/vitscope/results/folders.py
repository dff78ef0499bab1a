"""Where the runs of one command go: a folder for each model."""

from collections.abc import Sequence
from pathlib import Path


def run_folders(models: Sequence[str], out: Path | None, default: Path) -> dict[str, Path]:
    """The run folder of each model, once each.

    `out` is the folder itself of a single model, and the folder above those of several; without it they go below
    `default`. Models of the same name get numbers.
    """
    folders: dict[str, Path] = {}
    distinct = list(dict.fromkeys(models))
    if len(distinct) == 1 and out is not None:
        return {distinct[0]: out}
    for model in distinct:
        plain = Path(model).name if Path(model).is_dir() else model
        plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in plain).strip(".") or "model"
        taken = {path.name for path in folders.values()}
        unique = next(n for n in (plain, *(f"{plain}-{i}" for i in range(2, 10_000))) if n not in taken)
        folders[model] = (out or default) / unique
    return folders
