"""The command that examines the model of a run folder, as far as its record knows it."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitscope.data.images import HELD_OUT
from vitscope.results import Run

_HEADS = ("upernet", "unet", "maskrcnn")  # in front of a backbone's name
_SOURCES = (
    "hf",
    "tv",
    "hf-hub",
    "hf_hub",
    "local-dir",
)  # in front of names that lead to no code of the user's


def diagnose_command(run: Run) -> str:
    """With the data that it was trained on, and leave to run the function that makes the model, if one does."""
    options: Mapping[str, Any] = run.record.get("options") or {}
    words = ["vitscope", "diagnose", str(run.path)]
    if isinstance(data := options.get("data"), str):
        words += ["--data", data]
        if _is_undivided(data):
            words += ["--split", HELD_OUT]
    words += ["--out", str(run.path)]
    if isinstance(name := options.get("model"), str) and is_function(name):
        words.append("--trust-code")
    return shlex.join(words)


def _is_undivided(data: str) -> bool:
    """Whether most of these images are those that it was trained on; not known of a folder that is gone."""
    from vitscope.data.folder import without_splits  # which needs torch

    return Path(data.partition(":")[2]).expanduser().is_dir() and without_splits(data)


def is_function(name: str) -> bool:
    """Whether a model's name leads to a function: `package.module:function`, also as a backbone."""
    source, colon, rest = name.partition(":")
    return is_function(rest) if source in _HEADS else bool(colon) and source not in _SOURCES
