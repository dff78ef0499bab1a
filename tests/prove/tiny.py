"""Models and data so small that a training takes a second: what faults are tried on."""

import json
from pathlib import Path

import numpy as np
from PIL import Image
from timm.models.vision_transformer import VisionTransformer
from torch import nn

SIDE, CLASSES = 32, 3


def vit(num_classes: int = CLASSES, img_size: int = SIDE, drop_path_rate: float = 0.0) -> nn.Module:
    """Two blocks of 16 channels."""
    model = VisionTransformer(
        img_size=img_size,
        patch_size=8,
        embed_dim=16,
        depth=2,
        num_heads=2,
        num_classes=num_classes,
        drop_path_rate=drop_path_rate,
    )
    model.pretrained_cfg = {"input_size": (3, img_size, img_size), "mean": (0.5,) * 3, "std": (0.25,) * 3}
    return model


def make_data(root: Path, seed: int = 0) -> None:
    """`folder`, `masks`, `coco` and `vqa` below `root`, each of a few pictures of squares on noise."""
    draw = np.random.default_rng(seed)
    for split, count in (("train", 45), ("test", 9)):
        for number in range(count):
            pixels, (left, top), kind = _square(draw)
            _save(root / "folder" / split / f"class{kind}" / f"{number}.png", pixels)
        for number in range(CLASSES):  # every class is there
            _save(root / "folder" / split / f"class{number}" / "first.png", _square(draw, number)[0])
    for split, count in (("train", 8), ("test", 4)):
        for number in range(count):
            pixels, (left, top), kind = _square(draw)
            mask = np.zeros((SIDE, SIDE), np.uint8)
            mask[top : top + 12, left : left + 12] = kind
            _save(root / "masks" / split / "images" / f"{number}.png", pixels)
            _save(root / "masks" / split / "masks" / f"{number}.png", mask)
    (root / "masks" / "classes.txt").write_text("nothing\none\ntwo\n")
    _make_coco(root / "coco", draw)
    _make_vqa(root / "vqa", draw)


def _square(draw: np.random.Generator, kind: int | None = None) -> tuple[np.ndarray, tuple[int, int], int]:
    kind = int(draw.integers(0, CLASSES)) if kind is None else kind
    left, top = (int(place) for place in draw.integers(0, SIDE - 12, 2))
    pixels = draw.integers(0, 90, (SIDE, SIDE, 3)).astype(np.uint8)
    pixels[top : top + 12, left : left + 12, kind] = 240
    return pixels, (left, top), kind


def _save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def _make_coco(root: Path, draw: np.random.Generator) -> None:
    (root / "annotations").mkdir(parents=True)
    for split, count in (("train", 6), ("val", 3)):
        images, annotations = [], []
        for number in range(1, count + 1):
            pixels, (left, top), kind = _square(draw)
            _save(root / split / f"{number}.png", pixels)
            images.append({"id": number, "file_name": f"{number}.png", "width": SIDE, "height": SIDE})
            corners = [left, top, left + 12, top, left + 12, top + 12, left, top + 12]
            annotations.append(
                {
                    "id": number,
                    "image_id": number,
                    "category_id": kind + 1,
                    "bbox": [left, top, 12, 12],
                    "area": 144,
                    "iscrowd": 0,
                    "segmentation": [corners],
                }
            )
        categories = [{"id": kind + 1, "name": f"class{kind}"} for kind in range(CLASSES)]
        content = {"images": images, "annotations": annotations, "categories": categories}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))


def _make_vqa(root: Path, draw: np.random.Generator) -> None:
    for split, count in (("train2014", 8), ("val2014", 4)):
        asked, answered = [], []
        for number in range(1, count + 1):
            pixels, _, kind = _square(draw)
            _save(root / split / f"COCO_{split}_{number:012d}.jpg", pixels)
            answer = "yes" if kind else "no"
            asked.append({"question_id": number, "image_id": number, "question": "is it red?"})
            said = {"multiple_choice_answer": answer, "answers": [{"answer": answer}] * 10}
            answered.append({"question_id": number, "image_id": number, **said})
        file = root / f"v2_OpenEnded_mscoco_{split}_questions.json"
        file.write_text(json.dumps({"questions": asked}))
        file = root / f"v2_mscoco_{split}_annotations.json"
        file.write_text(json.dumps({"annotations": answered}))
    (root / "answers.txt").write_text("yes\nno\n")
