import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from vitscope.core.errors import BadData
from vitscope.data import batches, load_data
from vitscope.engine.held_batches import HeldBatches, training_split
from vitscope.models import create_model
from vitscope.training import get_recipe

N = 8


@pytest.fixture(scope="module")
def model():
    return create_model("vit_mini", depth=1, embed_dim=12).eval()


@pytest.fixture(scope="module")
def fashion():
    return load_data("fashion", split="train")


def held(model, data, recipe="hdv", count=3, seed=0) -> HeldBatches:
    return HeldBatches(model, data, N, count, recipe, seed)


def test_drawn_once_whatever_else_is_drawn(model, fashion) -> None:
    one, other = held(model, fashion), held(model, fashion)
    first = one[2]
    torch.randn(7), np.random.rand(3), random.random()
    state = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    for again in (one[2], other[2]):
        assert torch.equal(first.images, again.images)
        assert torch.equal(first.targets, again.targets)
    assert torch.equal(state[0], torch.get_rng_state())
    assert state[1] == np.random.get_state()[1].tolist()
    assert state[2] == random.getstate()


def test_batches_and_seeds_differ(model, fashion) -> None:
    assert not torch.equal(held(model, fashion)[0].images, held(model, fashion)[1].images)
    assert not torch.equal(held(model, fashion)[0].images, held(model, fashion, seed=1)[0].images)


def test_targets_are_mixed_and_smoothed(model, fashion) -> None:
    batch = held(model, fashion)[0]
    assert batch.images.shape == (N, 3, 32, 32)
    torch.testing.assert_close(batch.targets.sum(1), torch.ones(N))
    assert float(batch.targets.min()) == pytest.approx(0.1 / 10)
    assert int((batch.targets > 0.011).sum(1).max()) == 2
    assert get_recipe("hdv").label_smoothing == 0.1


def test_without_mixing_images_are_augmented_one_by_one(model, fashion) -> None:
    recipe = get_recipe("weak")
    batch = held(model, fashion, recipe)[0]
    assert set(batch.targets.unique().tolist()) == {0.0, 1.0}
    plain = held(model, fashion, None)[0]
    assert plain.targets.dtype == torch.int64
    expected, labels, _ = next(iter(batches(fashion, model, batch_size=N, limit=3 * N)))
    assert torch.equal(plain.images, expected)
    assert torch.equal(plain.targets, labels)


@pytest.mark.parametrize("form", ["tensors", "loader"])
def test_prepared_images_are_only_mixed(model, form: str) -> None:
    images, labels = torch.randn(24, 3, 32, 32), torch.arange(24) % 10
    data = (images, labels) if form == "tensors" else DataLoader(TensorDataset(images, labels), batch_size=N)
    batch = held(model, data)
    assert batch.augmentation == "hdv, mixing only"
    before, mixed, plain = images.clone(), batch[1], held(model, data, None)[1]
    lam = 1 - mixed.targets[torch.arange(N), plain.targets]
    assert (lam > 0).all()
    assert not torch.equal(mixed.images, plain.images)
    assert torch.equal(images, before)
    places = [int((images == image).flatten(1).all(1).nonzero()) for image in plain.images]
    assert labels[places].tolist() == plain.targets.tolist()
    assert (places == list(range(N, 2 * N))) == (form == "loader")  # a loader has its own order


def test_sorted_tensors_and_data_sets_are_shuffled_by_class_and_seed(model) -> None:
    """The first images of what is sorted by class are all of one class."""
    labels = torch.arange(10).repeat_interleave(30)
    images = torch.arange(300.0).view(-1, 1, 1, 1).expand(-1, 3, 32, 32)
    for data in ((images, labels), TensorDataset(images, labels), (images.numpy(), labels.tolist())):
        found = HeldBatches(model, data, 20, 3, None, 0)
        seen = [found[i].targets for i in range(3)]
        shares = torch.bincount(torch.cat(seen), minlength=10)
        assert shares.tolist() == [6] * 10  # those of the whole
        assert all(len(targets.unique()) > 5 for targets in seen)
        assert HeldBatches(model, data, 20, 3, "hdv", 0).augmentation == "hdv, mixing only"
    one, same, other = (
        HeldBatches(model, (images, labels), 20, 3, None, seed)[0].images for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_pictures_are_augmented_with_the_class_shares_of_the_whole(model, fashion) -> None:
    found = HeldBatches(model, fashion, 20, 2, get_recipe("weak"), 0)
    classes = torch.cat([found[i].targets.argmax(1) for i in range(2)])
    assert torch.bincount(classes, minlength=10).tolist() == [4] * 10


@pytest.mark.parametrize("own", [5, 8, 24, 50])
def test_a_loader_is_put_together_to_batches_of_the_size_asked_for(model, own: int) -> None:
    images, labels = torch.randn(60, 3, 32, 32), torch.arange(60) % 10
    found = held(model, DataLoader(TensorDataset(images, labels), batch_size=own), None)
    assert [len(found[i].images) for i in range(3)] == [N] * 3
    assert torch.equal(torch.cat([found[i].images for i in range(3)]), images[: 3 * N])


def test_a_loader_that_is_sorted_by_class_is_said(model) -> None:
    images, labels = torch.randn(24, 3, 32, 32), torch.arange(24) // 12
    with pytest.warns(UserWarning, match=r"2 of 3 batches of the DataLoader have images of one class only"):
        held(model, DataLoader(TensorDataset(images, labels), batch_size=4), None)


def test_what_is_too_little_is_said(model, fashion) -> None:
    few = (torch.randn(20, 3, 32, 32), torch.zeros(20, dtype=torch.long))
    with pytest.raises(BadData, match="need 24 images, the data has 20; use batches=2"):
        held(model, few)
    with pytest.raises(BadData, match="need 24 images, the data has 20; use batches=2"):
        held(model, DataLoader(TensorDataset(*few), batch_size=10))
    with pytest.raises(BadData, match="one whole number per image"):
        held(model, (few[0], few[1][:10]))
    with pytest.raises(BadData, match="label 10, expected 0 to 9"):
        held(model, (torch.randn(24, 3, 32, 32), torch.full((24,), 10)))[0]
    with pytest.raises(BadData, match="expected at least 1"):
        HeldBatches(model, few, 0, 3, None, 0)


def test_training_split(fashion) -> None:
    assert training_split(load_data("fashion", split="test")).split == "train"
    assert training_split(fashion) is fashion
    assert training_split("anything") == "anything"
