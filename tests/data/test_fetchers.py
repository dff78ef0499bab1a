import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, batches, load_data
from vitscope.data.fetchers import fetcher_for, known_labels, to_batch
from vitscope.engine.facts import data_fingerprint

CONFIG = DataConfig((3, 16, 16), (0.0,), (1 / 255,), crop_pct=1.0)


class Told:
    def __init__(self, labels: object, n: int = 6) -> None:
        self.targets, self.n = labels, n

    def __len__(self) -> int:
        return self.n


@pytest.mark.parametrize(
    "labels", [[0, 1, 2, 0, 1, 2], (0, 1, 2, 0, 1, 2), np.arange(6) % 3, torch.arange(6) % 3]
)
def test_labels_a_data_set_tells(labels: object) -> None:
    told = known_labels(Told(labels))
    assert told is not None
    assert told.tolist() == [0, 1, 2, 0, 1, 2]
    inner = known_labels(Subset(Told(labels), [5, 0]))  # type: ignore[arg-type]
    assert inner is not None
    assert inner.tolist() == [2, 0]


def test_labels_of_tensors_and_of_several_data_sets() -> None:
    pair = TensorDataset(torch.zeros(3, 1, 2, 2), torch.tensor([4, 5, 6]))
    several = ConcatDataset([Subset(pair, [2, 0]), Told([0, 1, 2, 0, 1, 2])])  # type: ignore[list-item]
    found = known_labels(several)
    assert found is not None
    assert found.tolist() == [6, 4, 0, 1, 2, 0, 1, 2]
    assert known_labels(ConcatDataset([pair, Told(None)])) is None  # type: ignore[list-item]
    assert known_labels(TensorDataset(torch.zeros(3, 1))) is None


@pytest.mark.parametrize("labels", [None, [0, 1], [0.5] * 6, [[0, 1]] * 6, ["a"] * 6])
def test_labels_that_are_none(labels: object) -> None:
    assert known_labels(Told(labels)) is None


def test_pixels_of_different_size_form_a_batch() -> None:
    small, large = np.full((8, 8, 3), 9, np.uint8), torch.full((3, 40, 30), 9, dtype=torch.uint8)
    images, labels = to_batch([small, large], [1, 2], CONFIG, None)
    assert images.shape == (2, 3, 16, 16)
    assert torch.allclose(images, torch.tensor(9.0))
    assert labels.tolist() == [1, 2]


def test_files_are_decoded_in_order_by_several_threads_that_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(24):
        (tmp_path / f"c{i % 2}").mkdir(exist_ok=True)
        side = int(rng.integers(16, 200))  # unequal work, so that order is put to the test
        Image.new("L", (side, side), i * 10).save(tmp_path / f"c{i % 2}" / f"{i:02}.png")
    data = load_data(f"folder:{tmp_path}")
    before = threading.active_count()
    stream = batches(data, config=CONFIG, batch_size=5)
    for images, _, indices in stream:
        values = [int(Path(data.name(i)).stem) * 10 for i in indices.tolist()]
        assert torch.allclose(images[:, 0, 0, 0], torch.tensor(values).float())
    for _ in stream:
        break  # leaving early must not leave threads behind
    assert threading.active_count() == before


def test_what_needs_a_configuration_says_so() -> None:
    with pytest.raises(BadData, match="nothing says how"):
        fetcher_for((np.zeros((2, 8, 8, 3), np.uint8), np.zeros(2, np.int64)), None, None)


@pytest.mark.parametrize(
    ("images", "seen"),
    [
        (list(torch.rand(6, 3, 8, 8)), "a list of 6"),
        (tuple(torch.rand(6, 3, 8, 8)), "a tuple of 6"),
        ([torch.rand(3, 3, 8, 8)] * 2, "a list of 2"),
        (np.full((6, 3, 8, 8), 0.5, dtype=object), "an array of object"),
        (["one.png"] * 6, "a list of 6"),
        ("six.npy", "a str"),
    ],
)
def test_images_of_a_pair_that_are_no_tensor(images: object, seen: str) -> None:
    with pytest.raises(BadData, match=f"the images of the pair are {seen}; expected one tensor or array"):
        fetcher_for((images, torch.zeros(6, dtype=torch.long)), None, None)
    assert data_fingerprint((images, np.zeros(6))) is None
