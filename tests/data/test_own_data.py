"""A Dataset or DataLoader of somebody's own that gives what cannot be used, or raises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, batches

IMAGES = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
CONFIG = DataConfig((3, 8, 8))
PICTURE = Image.new("RGB", (8, 8))


class Own(Dataset[Any]):
    def __init__(self, get: Callable[[int], Any], length: Any = 16) -> None:
        self.get, self.length = get, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.get(index)


def sound(index: int) -> Any:
    return IMAGES[index], index % 3


def ends(index: int) -> Any:
    if index == 13:
        raise KeyError("gone")
    return sound(index)


def narrow(index: int) -> Any:
    return IMAGES[index][:, : 8 - index % 2], 0


def without_labels(items: list[Any]) -> Any:
    return torch.stack([image for image, _ in items]), None


GIVEN: dict[str, tuple[Any, str]] = {
    "shapes": (Own(narrow), r"shapes \(3, 7, 8\) and \(3, 8, 8\); expected one shape"),
    "shapes in a loader": (
        DataLoader(Own(narrow), batch_size=4),
        "put together batch 0: RuntimeError: stack",
    ),
    "tensors and pictures": (
        Own(lambda i: (PICTURE if i % 2 else IMAGES[i], 0)),
        "PIL images and float tensors; expected one",
    ),
    "bytes and pictures": (
        Own(lambda i: (PICTURE if i % 2 else np.zeros((8, 8, 3), np.uint8), 0)),
        "8-bit arrays and PIL images; expected one",
    ),
    "words": (Own(lambda i: ("a.png", 0)), "gives strs as an image; expected a float tensor"),
    "raises": (Own(ends), r"gives no image 13, although .* 16: KeyError: 'gone'; correct"),
    "raises in a loader": (DataLoader(Own(ends), batch_size=4), "batch 3: KeyError: 'gone'"),
    "raises in a process": (DataLoader(Own(ends), batch_size=4, num_workers=1), "batch 3: KeyError: 'gone'"),
    "too long": (Own(sound, 17), "gives no image 16, although it says that it has 17: IndexError"),
    "length below 0": (Own(sound, -1), "does not tell how many images"),
    "length in words": (Own(sound, "many"), "does not tell how many images"),
    "no batches": (DataLoader(Own(sound), batch_size=None), "gives one int as labels; expected batches"),
    "None": (
        DataLoader(Own(lambda i: (IMAGES[i], None)), batch_size=4),
        "batch 0: TypeError: default_collate",
    ),
    "no labels": (DataLoader(Own(sound), 4, collate_fn=without_labels), "gives NoneType as labels"),
    "complex": ((IMAGES, torch.ones(16) * 2j), "torch.complex64 labels"),
}


@pytest.mark.parametrize(("data", "said"), GIVEN.values(), ids=list(GIVEN))
def test_it_is_refused_in_words(data: Any, said: str) -> None:
    with pytest.raises(BadData, match=said):
        list(batches(data, config=CONFIG))


@pytest.mark.parametrize("data", [Own(ends), DataLoader(Own(ends), batch_size=4)], ids=["set", "loader"])
def test_the_cause_is_kept(data: Any) -> None:
    with pytest.raises(BadData) as refused:
        list(batches(data, config=CONFIG))
    assert isinstance(refused.value.__cause__, KeyError)
