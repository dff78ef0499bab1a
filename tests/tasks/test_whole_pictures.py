"""Pictures that are not square: what a model says of places is said of the whole picture."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.data import TaskData, batches
from vitscope.data.config import DataConfig
from vitscope.data.tasks.prepared import MaskArrays, ObjectArrays
from vitscope.tasks import find_task
from vitscope.training.evaluate import measure

SHAPES = [(200, 200), (100, 200), (200, 100), (100, 300)]
INPUT = {"input_size": (3, 64, 64), "mean": (0.0,) * 3, "std": (1.0,) * 3, "crop_pct": 0.9}


class ColourIsClass(nn.Module):
    """Knows the class of a pixel by its colour."""

    pretrained_cfg = INPUT

    def __init__(self, says_its_task: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1, bias=False)
        self.conv.weight.data = 9 * torch.eye(3)[:, :, None, None]
        if says_its_task:
            self.vitscope_task = "segmentation"  # type: ignore[assignment]

    def forward(self, images: Tensor) -> Tensor:
        return self.conv(images)


class BoxAroundWhite(nn.Module):
    """Finds the white rectangle."""

    vitscope_task, pretrained_cfg = "detection", INPUT

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Conv2d(3, 1, 1)

    def forward(self, images: Tensor) -> list[dict[str, Tensor]]:
        found = []
        for image in images:
            rows, columns = torch.where(image.mean(0) > 0.5)
            box = torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]).float()
            one = {"boxes": box[None], "labels": torch.zeros(1).long(), "scores": torch.ones(1)}
            found.append(one)
        return found


def coloured(shape: tuple[int, int]) -> TaskData:
    kinds = np.random.default_rng(0).integers(0, 3, (3, shape[0] // 50, shape[1] // 50))
    kinds[:, 0, 0], kinds[:, 0, -1], kinds[:, -1, 0] = 0, 1, 2  # at the sides, of which a crop would see less
    masks = np.kron(kinds, np.ones((1, 50, 50))).astype(np.uint8)
    reader = MaskArrays("a test", 255 * np.eye(3, dtype=np.uint8)[masks], masks)
    return TaskData("segmentation", "a test", "test", ("a", "b", "c"), reader)


@pytest.mark.parametrize("says_its_task", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_pixel_is_compared_with_its_own(shape: tuple[int, int], says_its_task: bool) -> None:
    data, model = coloured(shape), ColourIsClass(says_its_task).eval()
    if says_its_task:
        assert vs.exams.segmentation(model, data).miou > 0.99
        blurred = vs.exams.blur(model, data, strengths=(0.1,)).table()
        assert blurred[blurred["quantity"] == "miou"]["value"].min() > 0.99
    assert measure(model, find_task(None, data), data)["miou"] > 0.99  # of a training


@pytest.mark.parametrize("shape", SHAPES)
def test_boxes_are_where_the_objects_are(shape: tuple[int, int]) -> None:
    height, width = shape
    objects = np.zeros((1, *shape), np.int16)
    objects[0, height // 8 : 3 * height // 8, width // 8 : 3 * width // 8] = 1
    pixels = np.repeat(255 * objects.astype(np.uint8)[..., None], 3, 3)
    reader = ObjectArrays("a test", pixels, objects, np.zeros(1, np.uint8))
    data = TaskData("detection", "a test", "test", ("white",), reader)
    assert vs.exams.detection(BoxAroundWhite().eval(), data).box_ap > 0.8


def test_features_are_of_the_same_pictures() -> None:
    data = coloured((100, 300))
    images = next(iter(batches(data, ColourIsClass(True))))[0]
    config = DataConfig(**INPUT, crop_mode="squash")  # type: ignore[arg-type]
    whole = dataclasses.replace(config, crop_pct=1.0)
    assert config.whole() == whole
    expected = next(iter(batches(data, config=whole)))[0]
    assert torch.equal(images, expected)
