"""What a Hugging Face image processor does to pictures, in the terms of a data configuration.

A processor computes, of a pixel p from 0 to 255,

    x = (r p - o - m) / s      r: rescale_factor, 1 if it does not rescale;  o: 1 if it shifts afterwards, else 0
                               m, s: image_mean, image_std; 0 and 1 if it does not normalise

which is (p / 255 - mean) / std with mean = (m + o) / 255 r and std = s / 255 r.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData

FILE = "preprocessor_config.json"
_PIL_RESAMPLE = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_SQUASHED_FROM = 384  # pixels: ConvNeXt's, which alone has a crop_pct and no crop, cuts smaller ones only


def saved_processor(config: Any) -> Mapping[str, Any] | None:
    """The processor's file beside the model of a Hugging Face `config`, in its folder or in the cache of downloads.

    Nothing is fetched.
    """
    name = getattr(config, "name_or_path", None)
    if not isinstance(name, str) or not name:
        return None
    path = Path(name) / FILE if Path(name).is_dir() else _downloaded(name)
    if path is None or not path.is_file():
        return None
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadData(
            f"{path} is damaged ({reason(error)}); save the model's image processor again"
        ) from error
    return values if isinstance(values, dict) else None


def stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a processor's values say: mean, std, interpolation, crop_pct, crop_mode, and `side` as (height, width).

    Keys that it does not settle are absent.
    """
    found = _normalisation(values)
    if (resample := values.get("resample")) is not None:
        found["interpolation"] = _PIL_RESAMPLE.get(int(resample), "bicubic")
    return found | _fit(values)


def _normalisation(values: Mapping[str, Any]) -> dict[str, Any]:
    white = 1.0
    if values.get("do_rescale", True) is False:
        white = 255.0
    elif (factor := values.get("rescale_factor")) is not None:
        white = 255.0 * float(factor)
    offset = float(bool(values.get("rescale_offset")))
    if not values.get("do_normalize"):
        return {"mean": (offset / white,), "std": (1.0 / white,)}
    mean, std = _numbers(values.get("image_mean")), _numbers(values.get("image_std"))
    if not mean or not std:
        return {}
    if values.get("include_top"):  # EfficientNet's divides twice
        std = tuple(s * s for s in std)
    return {"mean": tuple((m + offset) / white for m in mean), "std": tuple(s / white for s in std)}


def _fit(values: Mapping[str, Any]) -> dict[str, Any]:
    """Which size pictures get, and how."""
    size, share = values.get("size"), values.get("crop_pct")
    crop = _sides(values.get("crop_size")) if values.get("do_center_crop") else None
    edge = size.get("shortest_edge") if isinstance(size, Mapping) else None
    if edge is None and isinstance(size, int) and (crop or share):
        edge = size  # older files have one number
    whole = _sides(size)
    if edge is not None:
        if share is not None and crop is None and edge >= _SQUASHED_FROM:
            return {"side": (edge, edge), "crop_pct": 1.0, "crop_mode": "squash"}
        side = crop or (edge, edge)
        return {"side": side, "crop_pct": min(1.0, side[0] / edge * float(share or 1.0))}
    if whole is None:
        return {"side": crop} if crop else {}
    side = crop or whole
    return {"side": side, "crop_pct": min(1.0, side[0] / whole[0]), "crop_mode": "squash"}


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    if isinstance(size, Mapping) and size.get("height") and size.get("width"):
        return int(size["height"]), int(size["width"])
    return None


def _numbers(values: Any) -> tuple[float, ...]:
    if values is None:
        return ()
    return tuple(map(float, values)) if isinstance(values, list | tuple) else (float(values),)


def _downloaded(name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, FILE)
    except HFValidationError:  # a folder that is not there any more
        return None
    return Path(found) if isinstance(found, str) else None
