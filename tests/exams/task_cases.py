"""Small data and models of pixels, objects and questions, for exams of the loss of other tasks; numbers are float64."""

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import vitscope as vs
from vitscope.data.task_data import NO_CLASS, Objects, TaskData, TaskName

SIDE, CLASSES, WORDS = 16, 3, ("is", "there", "a", "square", "circle", "?")
QUESTIONS = ("Is there a square?", "Is there a circle?")
CONFIG = {"mean": (0.5,) * 3, "std": (0.25,) * 3, "crop_pct": 1.0}


class Squares:
    """A bright square on noise; what is asked about it is the task's affair."""

    parallel = False

    def __init__(self, task: TaskName, count: int, side: int, holes: bool) -> None:
        self._task, self._count, self._side, self._holes = task, count, side, holes

    def __len__(self) -> int:
        return self._count

    def _place(self, index: int) -> tuple[int, int]:
        left, top = np.random.default_rng(index).integers(0, self._side // 2, 2)
        return int(left), int(top)

    def picture(self, index: int) -> Image.Image:
        pixels = np.random.default_rng(100 + index).integers(0, 120, (self._side, self._side, 3))
        left, top = self._place(index)
        pixels[top : top + self._side // 2, left : left + self._side // 2] += 110
        return Image.fromarray(pixels.astype(np.uint8))

    def target(self, index: int) -> Any:
        (left, top), half = self._place(index), self._side // 2
        if self._task == "vqa":
            return np.array([1.0, 0.0, 0.3] if index % 2 else [0.0, 0.9, 0.3], np.float32)
        mask = np.zeros((self._side, self._side), np.int16)
        mask[top : top + half, left : left + half] = 1 + index % (CLASSES - 1)
        if self._task == "segmentation":
            mask[:2] = NO_CLASS if self._holes and index % 2 else mask[:2]
            return mask
        boxes = np.array([[left, top, left + half, top + half]], np.float32)
        labels, area = np.array([index % CLASSES]), np.array([half**2], np.float32)
        return Objects(boxes, labels, (mask > 0).astype(np.uint8)[None], np.zeros(1, bool), area, index)

    def question(self, index: int) -> str:
        return QUESTIONS[index % 2]

    def name(self, index: int) -> str:
        return f"picture {index}"

    def check(self, index: int) -> None:
        return None

    def digest(self, places: Any) -> bytes:
        return repr((self._task, self._side, self._holes, places.tolist())).encode()


def squares(task: TaskName, count: int = 8, side: int = SIDE, holes: bool = False) -> TaskData:
    return TaskData(
        task, "squares", "train", [str(i) for i in range(CLASSES)], Squares(task, count, side, holes)
    )


class PixelNet(nn.Module):
    """Scores at half the size of the image."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.GELU(), nn.Conv2d(4, classes, 1)]
        self.layers = nn.Sequential(*layers).double()
        self.pretrained_cfg = {"input_size": (3, SIDE, SIDE), **CONFIG}

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


def vilt() -> nn.Module:
    torch.manual_seed(0)
    narrow = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    size = {"image_size": SIDE, "vocabulary": WORDS, "question_length": 8, "initializer_range": 0.4}
    return vs.create_model("vilt_mini", num_classes=CLASSES, **narrow, **size).double().eval()


def detector(side: int = 32) -> nn.Module:
    torch.manual_seed(0)
    narrow = {"depth": 4, "embed_dim": 12, "num_heads": 2, "channels": 4, "proposals": 8}
    return vs.create_model("maskrcnn:vit_mini", num_classes=CLASSES, img_size=side, **narrow).double().eval()
