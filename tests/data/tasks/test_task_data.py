"""`TaskData`: subsets, shares, checks, digests, and pictures as batches."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

from tests.data.tasks.test_masks import fill, masks_of, numbers, save_mask
from vitscope.core.errors import BadData
from vitscope.data import DataConfig, Objects, TaskData, batches, load_data, preprocess
from vitscope.data.fetchers import is_unlabelled, require_labels
from vitscope.data.tasks.prepared import MaskArrays, ObjectArrays, QuestionArrays

CONFIG = DataConfig((3, 16, 16), crop_pct=1.0)


def questions(n: int = 40, pictures: int = 10) -> TaskData:
    """Four questions about each picture."""
    images = np.random.default_rng(0).integers(0, 256, (pictures, 8, 8, 3), np.uint8)
    asked = np.array([f"what is {i}?" for i in range(n)])
    about = np.arange(n) % pictures
    reader = QuestionArrays("a test", images, asked, np.arange(n) % 3, about, n_answers=3)
    return TaskData("vqa", "a test", "train", ("a", "b", "c"), reader)


def streams() -> TaskData:
    images = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), np.uint8)
    reader = MaskArrays("a test", images, images[..., 0] % 4)
    return TaskData("segmentation", "a test", "test", ("a", "b", "c", "d"), reader, lengths=[4, 5])


def test_subsets_keep_what_belongs_together(tmp_path: Path) -> None:
    data = masks_of(fill(tmp_path, 6))
    part = data.subset([4, 1])
    assert [part.name(i) for i in range(2)] == [data.name(4), data.name(1)]
    assert np.array_equal(part[0][1], data[4][1])
    assert np.array_equal(part.subset([1])[0][1], data[1][1])
    assert np.array_equal(part[-1][1], data[1][1])
    with pytest.raises(IndexError):
        part[2]
    assert [len(stream) for stream in streams().streams or ()] == [4, 5]
    assert streams().subset([0, 1]).streams is None
    assert "9 pictures in 2 streams, 4 classes" in repr(streams())


def test_shares_are_seeded_nested_and_of_whole_pictures(tmp_path: Path) -> None:
    data = masks_of(fill(tmp_path, 10))
    names = {f: {data.fraction(f, seed=3).name(i) for i in range(round(10 * f))} for f in (0.2, 0.5, 1.0)}
    assert [len(kept) for kept in names.values()] == [2, 5, 10]
    assert names[0.2] < names[0.5] < names[1.0]
    assert {data.fraction(0.5, seed=4).name(i) for i in range(5)} != names[0.5]
    assert len(load_data(f"masks:{tmp_path}", "train", fraction=0.5, seed=3)) == 5
    asked = questions().fraction(0.3, seed=1)
    assert len(asked) == 12
    about = [asked.reader.picture_number(int(place)) for place in asked.positions]
    assert sorted(about) == sorted(np.repeat(np.unique(about), 4).tolist())  # all four questions about each
    for wrong, said in (
        (0.0, "above 0"),
        (1.5, "above 0"),
        (0.001, "leaves none of 10 pictures; use at least 0.1"),
    ):
        with pytest.raises(BadData, match=said):
            data.fraction(wrong)


def test_questions_come_with_their_pictures() -> None:
    data = questions()
    (picture, question), scores = data[13]
    assert question == data.question(13) == data.questions[13] == "what is 13?"
    assert np.array_equal(np.asarray(picture), data.reader.images[3])
    assert scores.tolist() == [0.0, 1.0, 0.0]
    assert scores.dtype == np.float32
    assert data.name(13) == "question 13 of a test"
    with pytest.raises(BadData, match="has no questions, it is data of segmentation"):
        streams().question(0)


def test_streams_have_to_hold_all_frames() -> None:
    data = streams()
    for lengths in ([4, 4], [0, 9], [10]):
        with pytest.raises(BadData, match="do not make up its 9"):
            TaskData("segmentation", "a test", "test", data.classes, data.reader, lengths=lengths)


def test_the_first_of_several_wrong_targets_is_named(tmp_path: Path) -> None:
    data = masks_of(fill(tmp_path, 12))
    for wrong in (7, 4, 9):
        save_mask(tmp_path / "masks" / f"{wrong}.png", numbers(0, 3)[:3])
    named = [data.name(i) for i in range(12)]
    first = min(named.index(str(tmp_path / "images" / f"{wrong}.jpg")) for wrong in (7, 4, 9))
    with pytest.raises(BadData, match=rf"masks/{Path(named[first]).stem}\.png"):
        data.check(show=False)
    data.subset([i for i in range(12) if Path(named[i]).stem not in "749"]).check()


def test_digests_tell_data_apart(tmp_path: Path) -> None:
    data = masks_of(fill(tmp_path, 4))
    again = masks_of(tmp_path)
    assert data.digest == again.digest
    assert data.subset([0, 1]).digest != data.subset([1, 0]).digest
    os.utime(tmp_path / "masks" / "2.png", (1, 1))
    assert data.digest != again.subset([0, 1, 2]).digest
    before = data.subset([0, 1]).digest
    assert data.subset([0, 1]).digest == before  # the others may change
    first, second = questions(), questions()
    assert first.digest == second.digest
    second.reader.answers[5] += 1
    assert first.digest != second.digest
    assert first.subset([0, 1]).digest == second.subset([0, 1]).digest
    objects = np.zeros((2, 8, 8), np.int16)
    pictures = np.zeros((2, 8, 8, 3), np.uint8)
    readers = [ObjectArrays("x", pictures, objects, np.array([kind], np.uint8)) for kind in (0, 1)]
    one, two = (TaskData("detection", "x", "test", ("a", "b"), reader) for reader in readers)
    assert one.digest != two.digest


def test_a_picture_without_objects_has_none() -> None:
    pictures = np.zeros((1, 8, 8, 3), np.uint8)
    reader = ObjectArrays("x", pictures, np.zeros((1, 8, 8), np.int16), np.array([0], np.uint8))
    objects = TaskData("detection", "x", "test", ("a",), reader)[0][1]
    assert isinstance(objects, Objects)
    assert len(objects) == 0
    assert (objects.boxes.shape, objects.masks.shape, objects.areas.shape) == ((0, 4), (0, 8, 8), (0,))


def test_processes_that_load_get_a_copy(tmp_path: Path) -> None:
    for data in (masks_of(fill(tmp_path)), questions(), streams()):
        copy = pickle.loads(pickle.dumps(data))  # as torch's DataLoader hands it to them
        assert copy.digest == data.digest
        assert np.array_equal(copy.target(1), data.target(1))


def test_batches_hold_the_pictures_without_labels(tmp_path: Path) -> None:
    for data in (masks_of(fill(tmp_path, 7)), questions(), streams()):
        seen = set()
        for images, labels, places in batches(data, config=CONFIG, batch_size=3):
            assert (labels == -1).all()
            for image, place in zip(images, places.tolist(), strict=True):
                assert np.array_equal(image, preprocess([data.picture(place)], CONFIG.whole())[0])
                seen.add(place)
        assert seen == set(range(len(data)))
        limited = batches(data, config=CONFIG, limit=5, seed=2)
        assert limited.n_images == 5
        assert is_unlabelled(data)
        with pytest.raises(BadData, match="no picture has a class of its own"):
            require_labels(data)
    with_model = batches(streams(), nn.Conv2d(3, 2, 1), batch_size=4)
    assert [len(labels) for _, labels, _ in with_model] == [4, 4, 1]


def test_a_broken_picture_is_named_when_it_is_read(tmp_path: Path) -> None:
    data = masks_of(fill(tmp_path))
    with Image.open(tmp_path / "images" / "1.jpg") as whole:
        whole.load()
    content = (tmp_path / "images" / "1.jpg").read_bytes()
    (tmp_path / "images" / "1.jpg").write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(BadData, match=r"cannot decode .*images/1\.jpg"):
        list(batches(data, config=CONFIG))


def test_what_is_held_out_has_nothing_in_common_with_the_rest() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), np.uint8)
    reader = MaskArrays("a test", images, images[..., 0] % 4, overlapping=3)
    tiles = TaskData("segmentation", "a test", "train", ("a", "b", "c", "d"), reader)
    learned, held_out = tiles.subset(np.arange(2, 12)).hold_out(0.25)
    assert sorted([*learned.positions, *held_out.positions]) == list(range(2, 12))
    assert len(set(held_out.positions // 3)) == 1
    assert not set(learned.positions // 3) & set(held_out.positions // 3)
    asked = questions()
    learned, held_out = asked.hold_out(0.2, seed=1)
    assert len(held_out) == 8  # two pictures with four questions each
    assert not set(learned.positions % 10) & set(held_out.positions % 10)
    with pytest.raises(BadData, match="leaves none of 4"):
        tiles.hold_out(0.1)
    with pytest.raises(BadData, match="leaves nothing of its 4 groups"):
        tiles.hold_out(0.9)
