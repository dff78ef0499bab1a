"""What a run records about its model, so that a page can show it without the model at hand."""

import csv
import json
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.anatomy import anatomy
from vitscope.anatomy.flops import count_flops, without_weights
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.core.interface import interface_of
from vitscope.data import data_config
from vitscope.engine.cache_key import weights_hash
from vitscope.models.origin import origin, run_of
from vitscope.results.plain_files import check_plain, read_plain


def model_facts(model: nn.Module, name: str) -> dict[str, Any]:
    """Name, size, cost, units, surgery and training of a model, as JSON can hold them."""
    size = data_config(model).input_size
    skeleton = _skeleton(model)
    made, home = origin(model), run_of(model)
    return {
        "name": name,
        "class": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "input_size": size,
        "weights_sha256": weights_hash(model),
        "flops": _flops(skeleton, size),
        "units": _units(skeleton, size) or _units(model, size),
        "surgery": getattr(model, "vitscope_surgery", []),
        "interface": interface_of(model).to_dict(),
        "origin": {"name": made.name, "arguments": dict(made.arguments)} if made else None,
        "run": home,
        "training": training_facts(Path(home)) if home else None,
    }


def training_facts(folder: Path) -> dict[str, Any] | None:
    """How the model of a run folder was trained and how far it came; None where no training was recorded."""
    try:
        record = json.loads(read_plain(folder / "run.json"))
        check_plain([folder / "metrics.csv"])
        with open(folder / "metrics.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, BadResult):
        return None
    records = [r for r in (record, *record.get("earlier", [])) if "recipe" in (r.get("options") or {})]
    if not records or not rows:
        return None
    options, last = records[-1]["options"], rows[-1]
    keys = ["name", "epochs", "batch_size", "lr", "optimizer", "weight_decay"]
    keys += ["auto_augment", "erase", "label_smoothing", "mixup", "cutmix", "mix_probability"]
    return {
        "recipe": {key: options["recipe"][key] for key in keys if key in options["recipe"]},
        "data": options.get("data"),
        "images": options.get("images"),
        "epochs": int(last["epoch"]),
        "accuracy": [float(last[key]) for key in ("accuracy", "low", "high")],
        "seconds": float(last["seconds"]),
    }


def _skeleton(model: nn.Module) -> nn.Module:
    """A copy without weights and without a user's hooks: looking at it costs no arithmetic, and nobody notices."""
    try:
        skeleton = without_weights(model)
    except Exception:  # whatever a foreign module does not like about being copied
        return model
    for module in skeleton.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for key in [k for k, hook in hooks.items() if not hook.__module__.startswith("vitscope.")]:
                del hooks[key]
    return skeleton


def _flops(model: nn.Module, size: tuple[int, int, int]) -> int | None:
    try:
        return count_flops(model, size)
    except Exception:  # whatever a foreign forward pass raises: a card without this line is still a card
        return None


def _units(model: nn.Module, size: tuple[int, int, int]) -> list[dict[str, Any]]:
    try:
        parts = anatomy(model, size)
    except (VitscopeError, RuntimeError, TypeError):  # exams that need the units will say what is wrong
        return []
    shown = ("name", "kind", "stage", "map_shape", "heads", "downsamples")
    return [{key: unit.describe()[key] for key in shown} for unit in parts]
