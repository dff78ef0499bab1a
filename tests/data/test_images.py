import pickle
from itertools import pairwise

import numpy as np
import pytest
from torch.utils.data import DataLoader

from vitscope.core.errors import BadData
from vitscope.data import ImageData, load_data
from vitscope.data.images import check_labels

GREY = np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4, 1)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def test_items_are_pictures_with_the_same_pixels() -> None:
    data = ImageData("x", "test", "abc", LABELS, images=GREY)
    picture, label = data[4]
    assert (picture.mode, label) == ("L", 1)
    assert (np.asarray(picture) == GREY[4, :, :, 0]).all()
    colour = ImageData("x", "test", "abc", LABELS, images=GREY.repeat(3, axis=-1))
    assert colour[4][0].mode == "RGB"
    assert data[-1][1] == data[5][1]
    with pytest.raises(IndexError):
        data[6]


def test_a_subset_remembers_where_its_images_come_from() -> None:
    data = (
        ImageData("x", "test", "abc", LABELS, images=GREY)
        .subset(np.array([5, 2, 3]))
        .subset(np.array([1, 2]))
    )
    assert data.labels.tolist() == [2, 0]
    assert data.name(1) == "image 3 of x (test)"
    assert data.images is not None
    assert (data.images == GREY[[2, 3]]).all()


def test_fractions_of_real_data() -> None:
    data = load_data("fashion", "train", fraction=0.02, seed=1)
    assert np.bincount(data.labels).tolist() == [12] * 10
    whole = load_data("fashion", "train")
    assert whole.images is not None
    assert data.images is not None
    assert (data.images == whole.images[data.positions]).all()


def test_a_torch_loader_with_worker_processes_takes_it() -> None:
    data = load_data("fashion", "test", fraction=0.05)
    loader = DataLoader(data, batch_size=10, num_workers=2, collate_fn=list)
    seen = [label for batch in loader for _, label in batch]
    assert seen == data.labels.tolist()


def test_it_survives_a_spawned_worker() -> None:
    data = load_data("fashion", "test", fraction=0.01)
    copy = pickle.loads(pickle.dumps(data))
    assert copy.name(3) == data.name(3)
    assert (copy.images == data.images).all()


@pytest.mark.parametrize(("bad", "seen"), [(-1, "-1"), (3, "3"), (255, "255")])
def test_labels_out_of_range_name_the_image(bad: int, seen: str) -> None:
    labels = LABELS.copy()
    labels[4] = bad
    with pytest.raises(BadData, match=rf"image 4 has label {seen}, expected 0 to 2"):
        ImageData("x", "test", "abc", labels, images=GREY)


def test_labels_in_range_and_no_labels_pass() -> None:
    check_labels(LABELS, 3, "x")
    check_labels(LABELS[:0], 3, "x")


def test_order_of_the_embedded_set_is_balanced_in_every_prefix() -> None:
    labels = load_data("fashion").labels
    for start, end in pairwise((0, 10, 130, 2000)):
        assert len(set(np.bincount(labels[start:end], minlength=10))) == 1
