"""Fashion-MNIST and CIFAR from every form they are handed around in."""

import gzip
import io
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import published_sets
from vitscope.data.fetch import digest
from vitscope.data.prepare import prepare
from vitscope.data.published_sets import (
    CIFAR10_DIGESTS,
    EMBEDDED,
    embedded_fashion,
    pad,
    read_cifar10,
    read_cifar100,
    read_fashion,
)
from vitscope.data.sources import load_data


def test_shape_size_and_balance() -> None:
    for split, n in (("train", 6000), ("test", 2000)):
        images, labels = embedded_fashion(split)
        assert images.shape == (n, 32, 32, 1)
        assert images.dtype == np.uint8
        assert np.bincount(labels).tolist() == [n // 10] * 10
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 5_000_000
    assert (EMBEDDED / "LICENSE.txt").is_file()


def test_what_one_caller_writes_no_other_sees() -> None:
    images, labels = embedded_fashion("test")
    before = images.copy()
    images[:], labels[:] = 7, 7
    again, others = embedded_fashion("test")
    assert np.array_equal(again, before)
    assert others[:10].tolist() == list(range(10))


def test_images_stand_on_a_black_border_and_are_all_different() -> None:
    images = np.concatenate([embedded_fashion(split)[0] for split in ("train", "test")])
    border = np.ones((32, 32), bool)
    border[2:-2, 2:-2] = False
    assert images[:, border].max() == 0
    assert images[:, ~border].max() == 255
    # Fashion-MNIST itself repeats a few images; no image may be in both splits of the embedded part.
    train, test = ({image.tobytes() for image in embedded_fashion(split)[0]} for split in ("train", "test"))
    assert not train & test
    assert len(train) > 5990


def test_statistics_are_those_of_the_whole_set() -> None:
    """The 60,000 training images have mean 0.2860 and deviation 0.3530 (published, without the border)."""
    pixels = embedded_fashion("train")[0][:, 2:-2, 2:-2] / 255.0
    assert abs(pixels.mean() - 0.2860) < 0.005
    assert abs(pixels.std() - 0.3530) < 0.005


@pytest.mark.parametrize("part", [slice(0, 250), slice(250, 1000), slice(1750, 2000)])
def test_labels_belong_to_their_images_everywhere(part: slice) -> None:
    """The nearest class mean of the training images is right for two thirds of the test images."""
    images, labels = embedded_fashion("train")
    means = np.stack([images[labels == label].mean(axis=0) for label in range(10)]).reshape(10, -1)
    images, labels = embedded_fashion("test")
    flat = images[part].reshape(len(images[part]), -1).astype(np.float64)
    distances = ((flat[:, None] - means) ** 2).sum(-1)
    assert (distances.argmin(1) == labels[part]).mean() > 0.6


def test_pad_centres() -> None:
    ones = np.ones((2, 28, 28), np.uint8)
    assert (pad(ones)[..., 0] == np.pad(ones, ((0, 0), (2, 2), (2, 2)))).all()


def test_other_files_under_the_right_names_are_refused(tmp_path: Path) -> None:
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"{name}-ubyte.gz").write_bytes(gzip.compress(bytes(1000)))
    with pytest.raises(
        BadData, match=r"train-images-idx3-ubyte\.gz is not the published file .*fetch it again"
    ):
        read_fashion(tmp_path)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(np.random.default_rng(0).bytes(100_000))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(packed[:50_000])
    with pytest.raises(BadData, match=r"train-images-idx3-ubyte\.gz is damaged"):
        read_fashion(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"no train-images-idx3-ubyte\.gz or train-images-idx3-ubyte below"):
        read_fashion(tmp_path)


PER_FILE = 20


def silent(_: str) -> None:
    pass


def colour_images(n: int) -> tuple[np.ndarray, np.ndarray]:
    grey, labels = embedded_fashion("test")
    tints = np.array([1.0, 0.7, 0.4])
    return (grey[:n] * tints).astype(np.uint8), labels[:n]


def records(images: np.ndarray, *labels: np.ndarray) -> np.ndarray:
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([*(label[:, None] for label in labels), planes], axis=1)


def python2_pickle(planes: np.ndarray, **labels: np.ndarray) -> bytes:
    """What Python 2's cPickle wrote with protocol 2: byte strings, and an array rebuilt from one of them."""

    def string(text: bytes) -> bytes:
        return (
            b"U" + bytes([len(text)]) + text
            if len(text) < 256
            else b"T" + struct.pack("<i", len(text)) + text
        )

    out = io.BytesIO()
    out.write(b"\x80\x02}q\x01(" + string(b"batch_label") + string(b"training batch 1 of 5"))
    for key, values in labels.items():
        out.write(string(key.encode()) + b"](" + b"".join(b"K" + bytes([v]) for v in values.tolist()) + b"e")
    out.write(
        string(b"data") + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + string(b"b")
    )
    out.write(
        b"\x87R(K\x01M" + struct.pack("<H", len(planes)) + b"M\x00\x0c\x86cnumpy\ndtype\n" + string(b"u1")
    )
    out.write(b"K\x00K\x01\x87R(K\x03" + string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")
    out.write(string(planes.tobytes()) + b"tb")
    out.write(
        string(b"filenames") + b"](" + b"".join(string(b"shirt_s_%06d.png" % i) for i in range(9)) + b"e"
    )
    out.write(b"u.")
    return out.getvalue()


@pytest.fixture
def small_cifar10(monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a CIFAR-10 of 6 x 20 images, whose digests are the expected ones."""
    images, labels = colour_images(6 * PER_FILE)
    parts = np.split(records(images, labels), 6)
    names = [*CIFAR10_DIGESTS["train"], *CIFAR10_DIGESTS["test"]]
    digests = {name: digest(np.ascontiguousarray(part)) for name, part in zip(names, parts, strict=True)}
    test = {"test_batch": digests.pop("test_batch")}
    monkeypatch.setattr(published_sets, "CIFAR10_DIGESTS", {"train": digests, "test": test})
    return images, labels


def write_cifar10(folder: Path, form: str, images: np.ndarray, labels: np.ndarray) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(6):
        part = slice(number * PER_FILE, (number + 1) * PER_FILE)
        name = "test_batch" if number == 5 else f"data_batch_{number + 1}"
        if form == "binary":
            records(images[part], labels[part]).tofile(folder / f"{name}.bin")
        elif form == "python":
            planes = records(images[part])
            (folder / name).write_bytes(python2_pickle(planes, labels=labels[part]))
        else:
            Image.fromarray(images[part].reshape(PER_FILE, 1024, 3)).save(folder / f"{name}.png")
    if form == "npm":
        (folder / "train_lables.json").write_text(json.dumps(labels[: 5 * PER_FILE].tolist()))
        (folder / "test_lables.json").write_text(json.dumps(labels[5 * PER_FILE :].tolist()))


@pytest.mark.parametrize("form", ["binary", "python", "npm"])
def test_every_form_gives_the_same_arrays(
    tmp_path: Path, small_cifar10: tuple[np.ndarray, np.ndarray], form: str
) -> None:
    images, labels = small_cifar10
    write_cifar10(tmp_path / "deep", form, images, labels)
    arrays = read_cifar10(tmp_path, silent)
    assert (np.concatenate([arrays[split][0] for split in ("train", "test")]) == images).all()
    assert (np.concatenate([arrays[split][1] for split in ("train", "test")]) == labels).all()
    assert arrays["test"][0].shape == (PER_FILE, 32, 32, 3)


def test_the_pickles_written_here_are_what_pickle_reads() -> None:
    images, labels = colour_images(PER_FILE)
    planes = records(images)
    content = pickle.loads(python2_pickle(planes, labels=labels), encoding="bytes")
    assert (content[b"data"] == planes).all()
    assert content[b"labels"] == labels.tolist()


def test_nothing_in_a_pickle_is_executed(
    tmp_path: Path, small_cifar10: tuple[np.ndarray, np.ndarray]
) -> None:
    write_cifar10(tmp_path, "python", *small_cifar10)
    trap = tmp_path / "ran"
    evil = (
        b"\x80\x02cos\nsystem\n(" + b"U" + bytes([len(f"touch {trap}")]) + f"touch {trap}".encode() + b"tR."
    )
    (tmp_path / "data_batch_1").write_bytes(evil)
    with pytest.raises(BadData, match="data_batch_1 is damaged"):
        read_cifar10(tmp_path, silent)
    assert not trap.exists()


def test_cifar100_takes_the_fine_label_from_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, coarse = colour_images(40)
    fine = (coarse.astype(int) * 9 + 3).astype(np.uint8)
    whole = records(images, coarse, fine)
    expected = {
        split: {split: digest(part, "sha1")} for split, part in (("train", whole[:30]), ("test", whole[30:]))
    }
    monkeypatch.setattr(published_sets, "CIFAR100_DIGESTS", expected)
    for name, part in (("train", slice(0, 30)), ("test", slice(30, 40))):
        (tmp_path / "bin").mkdir(exist_ok=True)
        whole[part].tofile(tmp_path / "bin" / f"{name}.bin")
        (tmp_path / "python").mkdir(exist_ok=True)
        content = python2_pickle(records(images[part]), fine_labels=fine[part], coarse_labels=coarse[part])
        (tmp_path / "python" / name).write_bytes(content)
    for form in ("bin", "python"):
        arrays = read_cifar100(tmp_path / form, silent)
        assert arrays["train"][1].tolist() == fine[:30].tolist()
        assert (arrays["test"][0] == images[30:]).all()


@pytest.mark.parametrize("form", ["binary", "python", "npm"])
def test_a_cut_or_changed_file_is_refused(
    tmp_path: Path, small_cifar10: tuple[np.ndarray, np.ndarray], form: str
) -> None:
    images, labels = small_cifar10
    changed = images.copy()
    changed[45, 3, 4, 1] ^= 1
    write_cifar10(tmp_path, form, changed, labels)
    with pytest.raises(BadData, match=r"data_batch_3\S* is not the published file"):
        read_cifar10(tmp_path, silent)
    write_cifar10(tmp_path, form, images, labels)
    path = next(iter(tmp_path.glob("data_batch_2*")))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(BadData, match=r"data_batch_2\S* is (damaged|not the published file)"):
        read_cifar10(tmp_path, silent)


def test_a_missing_file_is_named(tmp_path: Path, small_cifar10: tuple[np.ndarray, np.ndarray]) -> None:
    write_cifar10(tmp_path, "binary", *small_cifar10)
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(BadData, match=r"no data_batch_4\.bin or data_batch_4 or data_batch_4\.png below"):
        read_cifar10(tmp_path, silent)


@pytest.mark.slow  # fetches 139 MB unless a source is given
def test_the_real_cifar10_is_the_published_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SHA-1 of the binary version's test file, and the mean and deviation everybody uses."""
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path))
    prepare("cifar10", report=silent)
    test, train = load_data("cifar10", "test"), load_data("cifar10", "train")
    assert test.images is not None
    assert train.images is not None
    whole = records(test.images, test.labels.astype(np.uint8))
    assert digest(whole, "sha1") == "sha1:67eb016db431130d61cd03c7ad570b013799c88c"
    pixels = train.images.reshape(-1, 3) / 255.0
    assert np.abs(pixels.mean(0) - (0.4914, 0.4822, 0.4465)).max() < 1e-4
    assert np.abs(pixels.std(0) - (0.2470, 0.2435, 0.2616)).max() < 1e-4
    assert train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert np.bincount(train.labels).tolist() == [5000] * 10
