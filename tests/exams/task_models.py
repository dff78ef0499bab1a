"""Small models and data of detection and of visual question answering, whose results can be written down by hand."""

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitscope.data.images import Indices
from vitscope.data.task_data import Objects, TaskData
from vitscope.models.dense.words import Words

CONFIG = {"input_size": (3, 32, 32), "mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 1.0}
CLASSES = ("red", "green", "blue")
SIDES = (12, 16)  # of the boxes that are looked at, in pixels of a 32-pixel image
ANSWERS = ("yes", "no", "2", "weed")
QUESTIONS = ("Is there sand?", "How many stones?", "What grows here?")


class SmallDetector(nn.Module):
    """Looks at 18 boxes: the class of each is its strongest colour, the score how strong that is; its mask is round."""

    vitscope_task = "detection"
    num_classes = 3

    def __init__(self, masks: bool = True) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(5.0))
        self.masks = masks
        self.pretrained_cfg = CONFIG

    def forward(self, images: Tensor) -> list[dict[str, Tensor]]:
        found = []
        for image in images:
            boxes, scores, labels, masks = [], [], [], []
            for side in SIDES:
                for x in (0, 8, 15):
                    for y in (0, 8, 15):
                        colour = image[:, y : y + side, x : x + side].mean((1, 2))
                        boxes.append([x, y, x + side, y + side])
                        scores.append(torch.sigmoid(self.scale * (colour.amax() - colour.mean()) - 1))
                        labels.append(int(colour.argmax()))
                        rows, columns = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
                        away = (rows - y - side / 2 + 0.5) ** 2 + (columns - x - side / 2 + 0.5) ** 2
                        masks.append((away < (0.55 * side) ** 2).to(image))
            best = torch.stack(scores).argsort(descending=True, stable=True)[:10]
            one = {
                "boxes": torch.tensor(boxes, dtype=image.dtype)[best],
                "scores": torch.stack(scores)[best],
                "labels": torch.tensor(labels)[best],
            }
            found.append({**one, "masks": torch.stack(masks)[best]} if self.masks else one)
        return found


class Pictures:
    """Ten pictures again and again."""

    parallel = False

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def name(self, index: int) -> str:
        return f"picture {index}"

    def check(self, index: int) -> None:
        pass

    def digest(self, places: Indices) -> bytes:
        return places.tobytes()


class Boxes(Pictures):
    """Up to three coloured boxes in grey noise; two pictures are 4 and 8 times as large, one has a crowd."""

    def __init__(self, count: int, masks: bool = True) -> None:
        super().__init__(count)
        self.masks = masks

    def _made(self, index: int) -> tuple[np.ndarray, Objects]:
        draw, times = np.random.default_rng(index % 10), {2: 4, 7: 8}.get(index % 10, 1)
        pixels = draw.integers(90, 150, (32, 32, 3), dtype=np.uint8)
        corners = [(0, 0), (16, 2), (3, 17)][: index % 4]
        boxes, labels = [], []
        for k, (x, y) in enumerate(corners):
            side = int(draw.integers(9, 15))
            labels.append(int(draw.integers(0, 3)))
            pixels[y : y + side, x : x + side, labels[-1]] = 150 + 40 * k + index % 10
            boxes.append([x, y, x + side, y + side])
        large = np.repeat(np.repeat(pixels, times, 0), times, 1)
        array = times * np.array(boxes, np.float32).reshape(-1, 4)
        masks = np.zeros((len(boxes), *large.shape[:2]), np.uint8)
        for mask, (left, top, right, bottom) in zip(masks, array.astype(int), strict=True):
            mask[top:bottom, left:right] = 1
        crowd = np.arange(len(boxes)) == (1 if index % 10 == 6 else -1)
        areas = masks.sum((1, 2), dtype=np.float32)
        outlines = masks if self.masks else None
        return large, Objects(array, np.array(labels, np.int64), outlines, crowd, areas, index)

    def picture(self, index: int) -> Image.Image:
        return Image.fromarray(self._made(index)[0])

    def target(self, index: int) -> Objects:
        return self._made(index)[1]


def boxed(count: int = 10, masks: bool = True) -> TaskData:
    return TaskData("detection", "coco:small", "test", CLASSES, Boxes(count, masks))


class SmallAnswerer(nn.Module):
    """Four answers, from the colours of a picture and the words of a question."""

    vitscope_task = "vqa"
    num_classes = len(ANSWERS)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.vitscope_words = Words.of(QUESTIONS, length=8)
        self.words = nn.Embedding(self.vitscope_words.size, len(ANSWERS))
        self.colours = nn.Linear(3, len(ANSWERS))
        self.pretrained_cfg = CONFIG

    def forward(self, shown: Any) -> Tensor:
        if isinstance(shown, Tensor):
            asked = self.vitscope_words([""])["input_ids"].expand(len(shown), -1)
            shown = {"pixel_values": shown, "input_ids": asked}
        images = shown["pixel_values"]
        said: Tensor = 40 * self.colours(images.mean((2, 3))) * self.words(shown["input_ids"]).mean(1)
        return said


class Asked(Pictures):
    """Three questions about each picture, of which people are not always sure; nobody can answer every tenth."""

    def picture(self, index: int) -> Image.Image:
        draw = np.random.default_rng(index // 3 % 10)
        return Image.fromarray(draw.integers(0, 256, (32, 32, 3), dtype=np.uint8))

    def picture_number(self, index: int) -> int:
        return index // 3

    def question(self, index: int) -> str:
        return QUESTIONS[index % 3]

    def target(self, index: int) -> np.ndarray:
        scores = np.zeros(len(ANSWERS), np.float32)
        if index % 10:
            best = int(np.random.default_rng(index % 30).integers(0, 4))
            scores[best], scores[(best + 1) % 4] = (1.0, 0.3) if index % 2 else (0.9, 0.0)
        return scores


def asked(count: int = 30) -> TaskData:
    return TaskData("vqa", "vqa:small", "test", ANSWERS, Asked(count))
