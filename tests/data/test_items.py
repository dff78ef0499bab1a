"""Datasets and DataLoaders that give tuples, dicts, or neither."""

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from vitscope.core.errors import BadData
from vitscope.data import batches

IMAGES = torch.rand(7, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(7) % 3
FORMS: dict[str, Any] = {
    "pair": lambda i: (IMAGES[i], LABELS[i]),
    "plain number": lambda i: (IMAGES[i], int(LABELS[i])),
    "triple": lambda i: [IMAGES[i], LABELS[i], f"{i}.png"],
    "image, label": lambda i: {"image": IMAGES[i], "label": LABELS[i], "name": str(i)},
    "pixel_values, labels": lambda i: {"pixel_values": IMAGES[i], "labels": int(LABELS[i])},
}
REFUSED: dict[str, tuple[Any, str]] = {
    "no label": (
        lambda i: IMAGES[i],
        r"gives a Tensor of shape \(.*3, 8, 8\) without a label",
    ),
    "no name we know": (
        lambda i: {"picture": IMAGES[i]},
        "with picture; expected the image under one of: image, ",
    ),
    "two labels": (
        lambda i: {"image": IMAGES[i], "label": LABELS[i], "target": LABELS[i]},
        "gives dicts with label and target; expected one label",
    ),
    "one-hot": (
        lambda i: (IMAGES[i], torch.eye(3, dtype=torch.long)[LABELS[i]]),
        "expected one whole number per image",
    ),
    "labels in a list": (lambda i: (IMAGES[i], LABELS[i : i + 1]), "expected one whole number per image"),
}


class Items(Dataset[Any]):
    def __init__(self, form: Any) -> None:
        self._form = form

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Any:
        if index >= len(IMAGES):
            raise IndexError
        return self._form(index)


class Stream(IterableDataset[Any]):
    def __init__(self, form: Any) -> None:
        self._form = form

    def __iter__(self) -> Any:
        return (self._form(i) for i in range(len(IMAGES)))

    def __len__(self) -> int:
        return len(IMAGES)


WAYS = {"Dataset": Items, "DataLoader": lambda form: DataLoader(Items(form), batch_size=3), "stream": Stream}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_forms_that_are_read(form: str, way: str) -> None:
    seen = list(batches(WAYS[way](FORMS[form]), batch_size=3))
    places = torch.cat([place for _, _, place in seen])
    assert sorted(places.tolist()) == list(range(7))
    assert torch.equal(torch.cat([images for images, _, _ in seen]), IMAGES[places])
    assert torch.equal(torch.cat([labels for _, labels, _ in seen]), LABELS[places])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", REFUSED)
def test_forms_that_are_refused(form: str, way: str) -> None:
    give, message = REFUSED[form]
    with pytest.raises(BadData, match=message):
        list(batches(WAYS[way](give), batch_size=3))
