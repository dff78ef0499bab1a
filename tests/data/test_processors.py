"""Hugging Face's image processors: what they make of a picture, and what is read from their files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, preprocess
from vitscope.data.processors import FILE, saved_processor, stated

SQUARE = {"size": {"height": 32, "width": 32}}
CONSTANTS = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}


def picture(height: int = 32, width: int = 32) -> Image.Image:
    rows, columns = np.mgrid[:height, :width] / 8
    waves = np.stack([np.sin(rows), np.cos(columns), np.sin(rows + columns)], 2)
    return Image.fromarray((127.5 + 127.5 * waves).astype(np.uint8))


def both(processor: Any, folder: Path, of: Image.Image) -> tuple[torch.Tensor, torch.Tensor]:
    """The picture as the processor prepares it, and as what its file says does."""
    processor.save_pretrained(folder)
    values = stated(saved_processor(transformers.ViTConfig(name_or_path=str(folder))) or {})
    config = DataConfig((3, *values.pop("side")), **values)
    return processor(of, return_tensors="pt")["pixel_values"], preprocess([of], config)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ViTImageProcessor", CONSTANTS | SQUARE),
        ("ViTImageProcessor", SQUARE | {"do_normalize": False}),
        ("ViTImageProcessor", SQUARE | {"do_normalize": False, "do_rescale": False}),
        ("ViTImageProcessor", CONSTANTS | SQUARE | {"rescale_factor": 1 / 127.5}),
        ("ViTImageProcessor", CONSTANTS | SQUARE | {"do_rescale": False}),
        (
            "EfficientNetImageProcessor",
            CONSTANTS | SQUARE | {"rescale_factor": 1 / 127.5, "rescale_offset": True},
        ),
        ("EfficientNetImageProcessor", CONSTANTS | SQUARE | {"include_top": False}),
        (
            "MobileViTImageProcessor",
            {"size": {"shortest_edge": 32}, "crop_size": 32, "do_flip_channel_order": False},
        ),
    ],
)
def test_normalisation_is_that_of_the_processor(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    theirs, ours = both(getattr(transformers, kind)(**options), tmp_path, picture())
    torch.testing.assert_close(ours, theirs.float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ViTImageProcessor", SQUARE),
        (
            "DeiTImageProcessor",
            {"size": {"height": 40, "width": 40}, "crop_size": {"height": 32, "width": 32}},
        ),
        ("CLIPImageProcessor", {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}),
        ("ConvNextImageProcessor", {"size": {"shortest_edge": 32}, "crop_pct": 0.8}),
        ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}}),
    ],
)
def test_sizes_and_crops_are_those_of_the_processor(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    theirs, ours = both(getattr(transformers, kind)(**options), tmp_path, picture(80, 112))
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().mean()) < 0.01 * float(theirs.std())  # the rounding of a grey level


def test_older_files_have_one_number_for_the_size() -> None:
    assert stated({"size": 224, "do_resize": True, "do_normalize": True, "resample": 2}) == {
        "interpolation": "bilinear",
        "side": (224, 224),
        "crop_pct": 1.0,
        "crop_mode": "squash",
    }
    older = stated({"size": 256, "crop_size": 224, "do_center_crop": True})
    assert (older["side"], older["crop_pct"]) == ((224, 224), 224 / 256)


def test_what_is_not_there_is_not_fetched(tmp_path: Path) -> None:
    for name in ("", "nobody/nothing", "no such folder/at/all", str(tmp_path)):
        assert saved_processor(transformers.ViTConfig(name_or_path=name)) is None
    assert saved_processor(None) is None
    (tmp_path / FILE).write_text("{")
    with pytest.raises(BadData, match="is damaged"):
        saved_processor(transformers.ViTConfig(name_or_path=str(tmp_path)))
