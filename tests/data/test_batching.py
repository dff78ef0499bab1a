import numpy as np
import pytest
import timm
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, batches, load_data, preprocess

CONFIG = DataConfig((3, 32, 32), crop_pct=1.0)


class Labelled(Dataset[tuple[Tensor, int]]):
    """A user's data set: preprocessed float images, labels in `targets` or hidden."""

    def __init__(self, n: int, tell: bool = True) -> None:
        self.n = n
        if tell:
            self.targets = [i % 4 for i in range(n)]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3, 8, 8), float(index)), index % 4


def indices_of(stream: object) -> list[int]:
    return torch.cat([indices for _, _, indices in stream]).tolist()  # type: ignore[attr-defined]


def test_every_image_once_with_its_own_label_and_pixels() -> None:
    data = load_data("fashion")
    assert data.images is not None
    stream = batches(data, config=CONFIG, batch_size=300)
    assert (len(stream), stream.n_images) == (7, 2000)
    seen = []
    for images, labels, indices in stream:
        assert (images.dtype, labels.dtype, indices.dtype) == (torch.float32, torch.int64, torch.int64)
        assert labels.tolist() == data.labels[indices.numpy()].tolist()
        seen += indices.tolist()
    assert torch.equal(images, preprocess(data.images[indices.numpy()], CONFIG))
    assert sorted(seen) == list(range(2000))
    assert indices_of(stream) == seen  # a second pass is the same


def test_order_is_seeded_and_mixes_classes() -> None:
    """A folder or a set that is sorted by class must not give batches of one class."""
    data = load_data("fashion")
    data = data.subset(np.argsort(data.labels, kind="stable"))
    one, same, other = (indices_of(batches(data, config=CONFIG, seed=seed)) for seed in (0, 0, 1))
    assert one == same
    assert one != other
    first = next(iter(batches(data, config=CONFIG, batch_size=100)))[1]
    assert first.bincount(minlength=10).min() >= 2


@pytest.mark.parametrize("world", [2, 3, 5])
def test_processes_share_the_same_batches_without_padding(world: int) -> None:
    data = load_data("fashion")
    alone = [
        tuple(indices.tolist()) for _, _, indices in batches(data, config=CONFIG, batch_size=150, limit=1001)
    ]
    shares = [
        batches(data, config=CONFIG, batch_size=150, limit=1001, rank=rank, world=world)
        for rank in range(world)
    ]
    together = [tuple(indices.tolist()) for share in shares for _, _, indices in share]
    assert sorted(together) == sorted(alone)
    assert sum(share.n_images for share in shares) == 1001
    assert [share.n_images for share in shares] == [sum(len(i) for _, _, i in share) for share in shares]


def test_more_processes_than_batches() -> None:
    shares = [batches(load_data("fashion"), config=CONFIG, limit=10, rank=rank, world=3) for rank in range(3)]
    assert [share.n_images for share in shares] == [10, 0, 0]
    assert list(shares[2]) == []


def test_limit_is_stratified_and_seeded() -> None:
    data = load_data("fashion")
    stream = batches(data, config=CONFIG, limit=50, seed=4)
    chosen = indices_of(stream)
    assert np.bincount(data.labels[chosen]).tolist() == [5] * 10
    assert set(chosen) != set(indices_of(batches(data, config=CONFIG, limit=50, seed=5)))
    assert batches(data, config=CONFIG, limit=10**6).n_images == 2000


def test_the_model_says_how() -> None:
    model = timm.create_model("test_vit", img_size=64, num_classes=10)
    images, *_ = next(iter(batches(load_data("fashion"), model, batch_size=4)))
    assert images.shape == (4, 3, 64, 64)
    assert model(images).shape == (4, 10)
    images, *_ = next(iter(batches(load_data("fashion"), model, config=CONFIG, batch_size=4)))
    assert images.shape == (4, 3, 32, 32)


def test_pairs_of_float_tensors_are_taken_as_they_are_in_their_order() -> None:
    x, y = torch.randn(10, 3, 8, 8, dtype=torch.float64), torch.arange(10) % 3
    for pair in ((x, y), [x, y], TensorDataset(x, y)):
        stream = batches(pair, batch_size=4)  # type: ignore[arg-type]
        images = torch.cat([images for images, _, _ in stream])
        assert torch.equal(images, x.float())
        assert indices_of(stream) == list(range(10))


def test_pairs_of_pixels_are_preprocessed_in_every_layout() -> None:
    data = load_data("fashion")
    assert data.images is not None
    pixels, labels = data.images[:20], data.labels[:20]
    expected = preprocess(pixels, CONFIG)
    colour = np.repeat(pixels, 3, axis=-1)
    forms = [
        (pixels, labels),
        (torch.from_numpy(pixels[..., 0]), torch.from_numpy(labels)),
        (torch.from_numpy(colour), labels.astype(np.uint8)),
        (torch.from_numpy(colour).permute(0, 3, 1, 2), labels.tolist()),
        (colour.transpose(0, 3, 1, 2), labels),
    ]
    for form in forms:
        stream = batches(form, config=CONFIG, batch_size=7)
        assert torch.allclose(torch.cat([images for images, _, _ in stream]), expected)


def test_any_dataset() -> None:
    stream = batches(Labelled(22), batch_size=5, limit=8)
    pieces = list(stream)
    assert stream.n_images == 8
    assert torch.cat([labels for _, labels, _ in pieces]).bincount().tolist() == [2] * 4
    for images, labels, indices in pieces:
        assert images[:, 0, 0, 0].tolist() == indices.tolist()
        assert labels.tolist() == (indices % 4).tolist()
    assert sorted(indices_of(batches(Labelled(22, tell=False), batch_size=5))) == list(range(22))
    assert batches(Labelled(22, tell=False), limit=8).n_images == 8
    subset = batches(Subset(Labelled(22), [0, 4, 8, 12, 1, 5, 9, 13]), limit=4)
    assert torch.cat([labels for _, labels, _ in subset]).bincount().tolist() == [2, 2]


def test_a_dataset_of_pictures_is_preprocessed() -> None:
    from torchvision.datasets import FakeData

    data = FakeData(size=6, image_size=(3, 40, 50), num_classes=3, random_offset=1)
    images, labels, indices = next(iter(batches(data, config=CONFIG)))
    assert images.shape == (6, 3, 32, 32)
    position = indices.tolist().index(2)
    picture, label = data[2]
    assert torch.allclose(images[position], preprocess([picture], CONFIG)[0])
    assert labels[position] == label


@pytest.mark.parametrize(("drop_last", "expected"), [(False, 22), (True, 20)])
def test_a_loader_keeps_its_batches(drop_last: bool, expected: int) -> None:
    loader = DataLoader(Labelled(22), batch_size=5, drop_last=drop_last)
    stream = batches(loader, batch_size=999)
    assert (stream.n_images, len(stream)) == (expected, len(loader))
    assert indices_of(stream) == list(range(expected))
    limited = batches(loader, limit=12)
    assert [len(labels) for _, labels, _ in limited] == [5, 5, 2]
    shares = [batches(loader, rank=rank, world=2) for rank in range(2)]
    assert sorted(i for share in shares for i in indices_of(share)) == list(range(expected))
    assert sum(share.n_images for share in shares) == expected


@pytest.mark.parametrize("tell", [True, False])
def test_labels_out_of_range_for_the_model(tell: bool) -> None:
    model = timm.create_model("test_vit", num_classes=3)
    with pytest.raises(
        BadData, match=r"the Labelled: image \d+ has label 3, expected 0 to 2; .*num_classes=4"
    ):
        list(batches(Labelled(22, tell), model))
    with pytest.raises(BadData, match="the DataLoader: image 3 has label 3"):
        list(batches(DataLoader(Labelled(22), batch_size=22), model))
    with pytest.raises(BadData, match=r"fashion \(test\): image 3 has label 9|has label 9, expected 0 to 2"):
        batches(load_data("fashion"), model)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("fashion", "data is a str; expected what load_data gives"),
        (Labelled(0), "holds no images"),
        ((torch.zeros(0, 3, 8, 8), torch.zeros(0).long()), "holds no images"),
        ((torch.zeros(4, 3, 8, 8), torch.zeros(3).long()), "expected one whole number per image"),
        ((torch.zeros(4, 3, 8, 8), torch.zeros(4)), "expected one whole number per image"),
        ((torch.zeros(4, 8, 8), torch.zeros(4).long()), "expected float .N, C, H, W. or uint8"),
        (
            (torch.zeros(4, 8, 8, 8, dtype=torch.uint8), torch.zeros(4).long()),
            "no axis of 1, 3 or 4 channels",
        ),
        ((torch.zeros(4, 3, 8, 8).long(), torch.zeros(4).long()), "expected float"),
        (DataLoader(["ab", "cd"], batch_size=2), "labels are str .*expected one whole number per image"),  # type: ignore[arg-type]
        (
            DataLoader([{"image": 1.0}]),
            "the DataLoader gives dicts with image; expected the label under one of: label",
        ),  # type: ignore[arg-type]
    ],
)
def test_data_that_cannot_be_used(data: object, message: str) -> None:
    with pytest.raises(BadData, match=message):
        list(batches(data, config=CONFIG))  # type: ignore[arg-type]


def test_bad_arguments() -> None:
    data = load_data("fashion")
    with pytest.raises(BadData, match=r"nothing says how; pass model=\.\.\. or config="):
        batches(data)
    with pytest.raises(BadData, match="batch_size is 0"):
        batches(data, config=CONFIG, batch_size=0)
    with pytest.raises(BadData, match="limit is 0"):
        batches(data, config=CONFIG, limit=0)
    with pytest.raises(BadData, match="rank is 2 of 2"):
        batches(data, config=CONFIG, rank=2, world=2)


class Pictures(torch.utils.data.Dataset):
    """Four images of 8 pixels, as floats or as something else."""

    def __init__(self, floats: bool) -> None:
        self.images = torch.rand(4, 3, 8, 8) if floats else torch.zeros(4, 3, 8, 8, dtype=torch.uint8)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return self.images[place], 0


@pytest.mark.parametrize("floats", [True, False])
def test_it_is_known_whether_images_came_as_numbers(floats: bool) -> None:
    data, labels = Pictures(floats), torch.zeros(4, dtype=torch.long)
    config = DataConfig((3, 8, 8), crop_pct=1.0)
    for form in (data, (data.images, labels), torch.utils.data.DataLoader(data, batch_size=2)):
        stream = batches(form, config=config)
        next(iter(stream))
        assert stream.as_given is floats
    named = batches(load_data("fashion", split="test"), config=CONFIG, limit=4)
    next(iter(named))
    assert named.as_given is False
