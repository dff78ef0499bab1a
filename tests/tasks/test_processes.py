"""Two processes train and measure for every task as one does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.processes import run

WORK = """
import json, sys
from pathlib import Path
import numpy as np
import torch
import vitscope as vs
from vitscope.core import distributed
from vitscope.data import load_data
from vitscope.training import train

torch.set_num_threads(1)
out = Path(sys.argv[1])
small = dict(progress=False, batch_size=4, workers=0)

def seeded(name, **arguments):
    torch.manual_seed(0)
    return vs.create_model(name, img_size=32, **arguments)

class PixelNet(torch.nn.Module):  # without batch normalisation, which sees the images of one process only
    def __init__(self):
        super().__init__()
        first, last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 2, 1)
        self.layers = torch.nn.Sequential(first, torch.nn.ReLU(), last)
        self.pretrained_cfg = {"input_size": (3, 32, 32), "mean": (0.5,) * 3, "std": (0.25,) * 3, "crop_pct": 1.0}

    def forward(self, images):
        return self.layers(images)

with distributed.process_group(5):
    found = {}
    torch.manual_seed(0)
    done = train(PixelNet(), f"masks:{out}/masks", "dense", out / "pixels", epochs=2, **small)
    found["pixels"] = [done.train_loss, done.accuracy, *done.scores.values()]
    boxes = seeded("maskrcnn:vit_mini", num_classes=1, depth=4, embed_dim=12, num_heads=2, channels=8, proposals=20)
    done = train(boxes, f"coco:{out}/coco", "dense", out / "boxes", epochs=1, **small)
    found["boxes"] = [done.train_loss, *done.scores.values()]
    (out / f"{distributed.rank()}.json").write_text(json.dumps(found))
"""


def found_by(folder: Path, processes: int) -> list[dict[str, Any]]:
    """What each process found."""
    _write_pictures(folder)
    (folder / "work.py").write_text(WORK)
    done = run(folder / "work.py", folder, processes=processes)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]


def test_two_processes_find_what_one_does(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (alone,), together = found_by(tmp_path / "one", 1), found_by(tmp_path / "two", 2)
    assert together[0] == together[1]
    for task in ("pixels", "boxes"):
        assert alone[task] == pytest.approx(together[0][task], abs=2e-3, nan_ok=True), task
    assert together[0]["boxes"][0] == pytest.approx(alone["boxes"][0], rel=1e-4)


def _write_pictures(folder: Path) -> None:
    """Bright squares on noise, with masks in folders and boxes as COCO has them."""
    draw = np.random.default_rng(0)
    for split, year, count in (("train", "train2017", 12), ("test", "val2017", 6)):
        pictures, objects = [], []
        for part in (
            folder / "masks" / split / "images",
            folder / "masks" / split / "masks",
            folder / "coco" / year,
        ):
            part.mkdir(parents=True)
        for number in range(1, count + 1):
            pixels = draw.integers(0, 90, (32, 32, 3)).astype(np.uint8)
            left, top = (int(place) for place in draw.integers(0, 18, 2))
            pixels[top : top + 12, left : left + 12] += 140
            mask = np.zeros((32, 32), np.uint8)
            mask[top : top + 12, left : left + 12] = 1
            name = f"{number:012d}"
            for part in (
                folder / "masks" / split / "images" / f"{name}.png",
                folder / "coco" / year / f"{name}.png",
            ):
                Image.fromarray(pixels).save(part)
            Image.fromarray(mask).save(folder / "masks" / split / "masks" / f"{name}.png")
            pictures.append({"id": number, "file_name": f"{name}.png", "height": 32, "width": 32})
            corners = [left, top, left + 12, top, left + 12, top + 12, left, top + 12]
            about = {"id": number, "image_id": number, "category_id": 1, "iscrowd": 0, "area": 144}
            objects.append({**about, "bbox": [left, top, 12, 12], "segmentation": [corners]})
        where = folder / "coco" / "annotations"
        where.mkdir(exist_ok=True)
        content = {"images": pictures, "annotations": objects, "categories": [{"id": 1, "name": "square"}]}
        (where / f"instances_{year}.json").write_text(json.dumps(content))
