import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import IterableImageDataset

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, batches, load_data
from vitscope.data.timm_sets import StreamData

CONFIG = DataConfig((1, 32, 32), (0.5,), (0.5,), crop_pct=1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = load_data("fashion")
    for i in range(40):
        picture, label = data[i]
        (tmp_path / "test" / f"c{label}").mkdir(parents=True, exist_ok=True)
        picture.save(tmp_path / "test" / f"c{label}" / f"{i:03}.png")
    return tmp_path


def write_idx(folder: Path, prefix: str, images: np.ndarray, labels: np.ndarray) -> None:
    """The files torchvision keeps Fashion-MNIST in."""
    head = np.array([0x803, *images.shape], ">u4").tobytes()
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(head + images.tobytes())
    head = np.array([0x801, len(labels)], ">u4").tobytes()
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())


def test_torchvision_data_set_through_timm(tmp_path: Path) -> None:
    data = load_data("fashion")
    assert data.images is not None
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    inner = np.ascontiguousarray(data.images[:50, 2:-2, 2:-2, 0])
    for prefix in ("train", "t10k"):
        write_idx(raw, prefix, inner, data.labels[:50].astype(np.uint8))
    loaded = load_data(f"timm:torch/fashion_mnist@{tmp_path}", fraction=0.4)
    assert len(loaded) == 20
    assert loaded.classes[9] == "Ankle boot"
    assert all((np.asarray(loaded[i][0]) == inner[loaded.positions[i]]).all() for i in range(20))


def test_image_folder_through_timm_equals_ours(folder: Path) -> None:
    ours, theirs = load_data(f"folder:{folder}"), load_data(f"timm:torch/image_folder@{folder}")
    assert ours.classes == theirs.classes
    assert ours.labels.tolist() == theirs.labels.tolist()
    one, other = (list(batches(data, config=CONFIG, batch_size=16)) for data in (ours, theirs))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(one, other, strict=True))


def test_a_broken_image_raises_instead_of_being_replaced(folder: Path) -> None:
    path = folder / "test" / "c3" / "013.png"
    path.write_bytes(path.read_bytes()[:100])
    data = load_data(f"timm:torch/image_folder@{folder}")
    with pytest.raises(BadData, match=r"cannot decode image \d+"):
        list(batches(data, config=CONFIG))


def test_hugging_face_through_timm(folder: Path) -> None:
    pytest.importorskip("datasets")
    home = Path(shutil.copytree(folder, Path(str(folder).lower()) / "hf"))  # timm lower-cases names
    data = load_data(f"timm:hfds/{home}@{folder}/cache")
    assert data.classes == tuple(f"c{i}" for i in range(10))
    assert np.bincount(data.labels).tolist() == [4] * 10
    assert sum(len(labels) for _, labels, _ in batches(data, config=CONFIG)) == 40


def test_webdataset_through_timm(tmp_path: Path) -> None:
    pytest.importorskip("webdataset")
    data = load_data("fashion")
    names = [f"fashion-test-{shard:04}.tar" for shard in range(2)]
    for shard, name in enumerate(names):
        with tarfile.open(tmp_path / name, "w") as archive:
            for i in range(20 * shard, 20 * shard + 20):
                picture, label = data[i]
                packed = io.BytesIO()
                picture.save(packed, "PNG")
                for suffix, content in (("png", packed.getvalue()), ("cls", str(label).encode())):
                    info = tarfile.TarInfo(f"{i:05}.{suffix}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    facts = {"name": "test", "num_samples": 40, "filenames": names, "shard_lengths": [20, 20]}
    (tmp_path / "_info.json").write_text(json.dumps({"splits": {"test": facts}}))
    stream = batches(load_data(f"timm:wds/{tmp_path}"), config=CONFIG, batch_size=16)
    assert stream.n_images == 40
    assert torch.cat([labels for _, labels, _ in stream]).tolist() == data.labels[:40].tolist()


class Reader:
    """What timm's readers of streams look like: an iterator of pictures and labels, and perhaps a length."""

    def __init__(self, n: int, stated: int) -> None:
        self.n, self.stated = n, stated
        self.dist_rank, self.dist_num_replicas = 0, 1

    def __iter__(self) -> Iterator[tuple[Image.Image, int]]:
        data = load_data("fashion")
        return (data[i] for i in range(self.n))

    def __len__(self) -> int:
        return self.stated


def stream(n: int = 40, stated: int = 40) -> StreamData:
    return StreamData("timm:wds/x", "test", (), IterableImageDataset("", reader=Reader(n, stated)))


def test_a_stream_is_read_in_order_and_shared_without_loss() -> None:
    data = stream()
    whole = list(batches(data, config=CONFIG, batch_size=16))
    assert torch.cat([labels for _, labels, _ in whole]).tolist() == load_data("fashion").labels[:40].tolist()
    shares = [batches(data, config=CONFIG, batch_size=16, rank=rank, world=2) for rank in range(2)]
    assert [share.n_images for share in shares] == [24, 16]
    seen = torch.cat([indices for share in shares for _, _, indices in share])
    assert sorted(seen.tolist()) == list(range(40))


def test_a_stream_of_unknown_length_wants_a_limit() -> None:
    with pytest.raises(BadData, match="unknown length; say how many images to use with limit=N"):
        batches(stream(stated=0), config=CONFIG)
    taken = batches(stream(stated=0), config=CONFIG, limit=30, batch_size=16)
    assert (taken.n_images, len(taken), [len(labels) for _, labels, _ in taken]) == (30, 2, [16, 14])


def test_a_stream_that_ends_early_is_not_passed_over_in_silence() -> None:
    with pytest.raises(BadData, match="ended after 20 of 40 images; use limit=20"):
        list(batches(stream(n=20), config=CONFIG))


def test_what_a_stream_cannot_do_is_said() -> None:
    data = stream()
    assert data.fraction(1.0) is data
    for attempt in (
        lambda: data.labels,
        lambda: data[0],
        lambda: data.fraction(0.5),
        lambda: data.subset(np.array([0])),
    ):
        with pytest.raises(BadData, match=r"is read in sequence, so .*; use limit=N"):
            attempt()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar", "is not PREFIX/NAME"),
        ("nope/x", "with a PREFIX of torch, hfds"),
        ("torch/", "is not PREFIX/NAME"),
        ("torch/cifar10", "read from pickles; use 'cifar10' after: vitscope data prepare cifar10"),
        ("torch/nope", "timm cannot open timm:torch/nope .*Unknown torchvision dataset nope"),
        ("tfds/mnist", "pip install tensorflow-datasets"),
    ],
)
def test_bad_names(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path))
    with pytest.raises(BadData, match=message) as caught:
        load_data(f"timm:{name}")
    assert "\n" not in str(caught.value)
