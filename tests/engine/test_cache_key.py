from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from vitscope.core.interface import declared
from vitscope.data import ImageData, load_data
from vitscope.engine.cache_key import data_fingerprint, exam_keys, weights_hash
from vitscope.engine.takes_interface import Request
from vitscope.exams import EXAMS
from vitscope.models import create_model

ALL = list(EXAMS.values())


def keys(model: nn.Module, data: object, limit: int | None = None, seed: int = 0) -> dict[str, str | None]:
    return exam_keys(model, data, ALL, Request(limit, seed=seed))


def test_weights_hash_sees_one_bit_and_names() -> None:
    model = nn.Linear(3, 3)
    before = weights_hash(model)
    assert weights_hash(model) == before
    with torch.no_grad():
        model.weight[0, 0] = torch.nextafter(model.weight[0, 0], torch.tensor(9.0))
    assert weights_hash(model) != before
    assert weights_hash(nn.Sequential(model)) != weights_hash(model)


def test_weights_hash_takes_every_type() -> None:
    model = nn.BatchNorm2d(4)  # has an integer buffer without axes
    assert weights_hash(model) != weights_hash(model.bfloat16())


def test_keys_change_with_what_matters_only(fashion: ImageData) -> None:
    torch.manual_seed(0)
    model = create_model("resnet_mini")
    base = keys(model, fashion)
    assert len(set(base.values())) == len(ALL)
    assert keys(model.train(), fashion) == base
    assert keys(model, load_data("fashion", split="test")) == base
    others = [
        keys(create_model("resnet_mini"), fashion),
        keys(model, load_data("fashion", split="train")),
        keys(model, fashion.fraction(0.5)),
        keys(model, fashion, limit=10),
        keys(model, fashion, seed=1),
    ]
    with declared(model, std=0.5):
        others.append(keys(model, fashion))
    assert all(other["fourier"] != base["fourier"] for other in others)


def test_keys_see_structure_that_has_no_weights() -> None:
    data = (torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.long))
    a, b = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU()), nn.Sequential(nn.Conv2d(3, 3, 1), nn.GELU())
    b.load_state_dict(a.state_dict())
    assert keys(a, data) != keys(b, data)


def test_fingerprint_sees_pixels_and_labels() -> None:
    images, labels = torch.zeros(3, 3, 4, 4), torch.zeros(3, dtype=torch.long)
    base = data_fingerprint((images, labels))
    assert data_fingerprint((images + 1, labels)) != base
    assert data_fingerprint((images, labels + 1)) != base
    assert data_fingerprint((images.numpy(), labels.numpy())) == base


def test_fingerprint_of_a_folder_sees_a_changed_file(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / name / "a.png")
    before = data_fingerprint(load_data(f"folder:{tmp_path}"))
    assert data_fingerprint(load_data(f"folder:{tmp_path}")) == before
    Image.fromarray(np.full((16, 16, 3), 9, np.uint8)).save(tmp_path / "dog" / "a.png")
    assert data_fingerprint(load_data(f"folder:{tmp_path}")) != before


def test_what_would_have_to_be_read_has_no_key() -> None:
    data = DataLoader(TensorDataset(torch.zeros(2, 3, 8, 8), torch.zeros(2)))
    assert set(keys(nn.Conv2d(3, 3, 1), data).values()) == {None}
