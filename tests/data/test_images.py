"""Images with labels, and their seeded subsets."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from torch.utils.data import DataLoader

from vitscope.core.errors import BadData
from vitscope.data import ImageData, load_data
from vitscope.data.images import check_labels, fraction_indices, limit_indices

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


@pytest.mark.parametrize(
    ("bad", "advice"),
    [
        (-1, "correct"),
        (3, "give the model num_classes=4 or more, or correct"),
        (255, "give the model num_classes=256"),
    ],
)
def test_labels_out_of_range_name_the_image(bad: int, advice: str) -> None:
    labels = LABELS.copy()
    labels[4] = bad
    with pytest.raises(BadData, match=rf"image 4 has label {bad}, expected 0 to 2; {advice}"):
        ImageData("x", "test", "abc", labels, images=GREY)


def test_labels_in_range_and_no_labels_pass() -> None:
    check_labels(LABELS, 3, "x")
    check_labels(LABELS[:0], 3, "x")


def test_order_of_the_embedded_set_is_balanced_in_every_prefix() -> None:
    labels = load_data("fashion").labels
    for start, end in pairwise((0, 10, 130, 2000)):
        assert len(set(np.bincount(labels[start:end], minlength=10))) == 1


UNEVEN = np.repeat(np.arange(4), (1000, 300, 50, 7))


def counts(labels: np.ndarray, indices: np.ndarray) -> list[int]:
    return np.bincount(labels[indices], minlength=4).tolist()


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.9])
def test_fraction_keeps_every_class_share(fraction: float) -> None:
    kept = fraction_indices(UNEVEN, fraction, seed=3)
    assert counts(UNEVEN, kept) == [int(n * fraction + 0.5) for n in (1000, 300, 50, 7)]
    assert len(set(kept.tolist())) == len(kept)
    assert (np.diff(kept) > 0).all()


def test_fraction_depends_on_the_seed_only() -> None:
    first = fraction_indices(UNEVEN, 0.1, seed=0)
    assert (first == fraction_indices(UNEVEN, 0.1, seed=0)).all()
    assert (first != fraction_indices(UNEVEN, 0.1, seed=1)).any()


def test_smaller_fractions_are_nested() -> None:
    small, large = (set(fraction_indices(UNEVEN, f, seed=5).tolist()) for f in (0.1, 0.4))
    assert small < large


def test_fraction_does_not_depend_on_where_the_classes_lie() -> None:
    order = np.random.default_rng(0).permutation(len(UNEVEN))
    kept = fraction_indices(UNEVEN[order], 0.1, seed=0)
    assert counts(UNEVEN[order], kept) == [100, 30, 5, 1]


def test_fraction_that_empties_a_class_names_it_and_the_remedy_works() -> None:
    with pytest.raises(
        BadData, match=r"class 'rare' \(7 images\) empty; use a fraction of at least 0.072"
    ) as caught:
        fraction_indices(UNEVEN, 0.02, classes=("a", "b", "c", "rare"))
    remedy = float(str(caught.value).rsplit(" ", 1)[1])
    assert counts(UNEVEN, fraction_indices(UNEVEN, remedy))[3] == 1


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, float("nan")])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(BadData, match="above 0 and at most 1"):
        fraction_indices(UNEVEN, fraction)


@pytest.mark.parametrize("limit", [1, 3, 13, 100, 679, 1356, 1357, 9999])
def test_limit_gives_exactly_that_many_with_the_shares_of_the_whole(limit: int) -> None:
    kept = limit_indices(UNEVEN, limit, seed=1)
    assert len(kept) == min(limit, len(UNEVEN)) == len(set(kept.tolist()))
    ideal = np.array([1000, 300, 50, 7]) * len(kept) / len(UNEVEN)
    assert (np.abs(counts(UNEVEN, kept) - ideal) < 1).all()


def test_limit_below_one_per_class_draws_the_classes() -> None:
    labels = np.arange(100) % 50
    drawn = [frozenset(labels[limit_indices(labels, 10, seed)]) for seed in range(5)]
    assert all(len(classes) == 10 for classes in drawn)
    assert len(set(drawn)) == 5


def test_limit_of_nothing_is_refused() -> None:
    with pytest.raises(BadData, match="at least 1 image"):
        limit_indices(UNEVEN, 0)
