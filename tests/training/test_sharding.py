"""Batches, shares and stochastic depth do not depend on how many processes there are."""

import copy
from collections import Counter
from dataclasses import replace

import pytest
import timm
import torch
from timm.layers import DropPath
from torch import nn

from vitscope.data import load_data
from vitscope.recipes.augment import Mix
from vitscope.recipes.named import get_recipe
from vitscope.recipes.seeding import random_state_preserved, seed_all
from vitscope.training.sharding import (
    PlacedDropPath,
    Repeated,
    StochasticDepth,
    batches,
    image_name,
    micro_batches,
    share,
)

SIZES = [1, 2, 3, 5, 8, 9, 16, 31]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_shares_are_disjoint_and_complete(n: int, world: int) -> None:
    batch = list(range(100, 100 + n))
    shares = [share(batch, rank, world) for rank in range(world)]
    counted = [image for one in shares if one.counted for image in one.images]
    assert sorted(counted) == batch
    assert all(one.images for one in shares)
    assert share(batch, 0, 1).images == batch


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("world", [2, 3, 4])
def test_mixing_shares_is_mixing_the_batch(n: int, world: int) -> None:
    mix = Mix(replace(get_recipe("hdv"), label_smoothing=0.0), n_classes=n)
    images = torch.arange(float(n)).view(n, 1, 1, 1).expand(n, 1, 8, 8).clone()
    labels = torch.arange(n)
    with random_state_preserved():
        for seed in range(4):  # mixup and CutMix
            seed_all(seed)
            whole, target = mix(images.clone(), labels)
            for rank in range(world):
                mine = torch.tensor(share(list(range(n)), rank, world).images)
                seed_all(seed)
                part, part_target = mix(images[mine].clone(), labels[mine])
                assert torch.equal(part, whole[mine])
                assert torch.equal(part_target, target[mine])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("world", [1, 2, 3])
def test_no_part_of_a_share_is_a_single_image(n: int, world: int) -> None:
    for accumulate in (1, 2, 3, 4):
        count = micro_batches(n, accumulate, world)
        sizes = [len(t) for r in range(world) for t in _cut(share(list(range(n)), r, world).images, count)]
        assert len(sizes) == count * world
        assert min(sizes) >= min(2, n)


def _cut(images: list[int], count: int) -> tuple[torch.Tensor, ...]:
    return torch.tensor(images).tensor_split(count)


def test_every_image_once_in_a_new_order_each_epoch() -> None:
    epochs = [batches(60, 17, seed=0, epoch=e) for e in (0, 1)]
    assert [[len(b) for b in chunks] for chunks in epochs] == [[17, 17, 17, 9]] * 2
    flat = [[i for b in chunks for i in b] for chunks in epochs]
    assert [sorted(f) for f in flat] == [list(range(60))] * 2
    assert flat[0] != flat[1]
    assert [len(b) for b in batches(60, 59, 0, 0)] == [59]


@pytest.mark.parametrize("n", [60, 61, 62])
def test_repeated_augmentation_takes_a_third_of_the_images_three_times(n: int) -> None:
    flat = [i for b in batches(n, 6, seed=0, epoch=0, repeats=3) for i in b]
    assert len(set(flat)) == len(flat) >= n - 1  # one image left over is skipped
    times = Counter(i % n for i in flat)
    assert len(times) == -(-len(flat) // 3)
    assert sum(count == 3 for count in times.values()) >= len(times) - 1
    for chunk in batches(60, 6, seed=0, epoch=0, repeats=3):
        assert sorted(Counter(i % 60 for i in chunk).values()) == [3, 3]


def test_repeated_data_keeps_its_images_and_their_names() -> None:
    data = load_data("fashion", split="train", fraction=0.01)
    thrice = Repeated(data, 3)
    n = len(data)
    assert len(thrice) == 3 * n
    assert thrice[n + 4][0].tobytes() == data[4][0].tobytes()
    assert thrice.name(2 * n + 4) == data.name(4)
    assert image_name([1, 2], 1) == "image 1"


def layer(rate: float = 0.3) -> tuple[nn.Module, StochasticDepth]:
    model = nn.Sequential(DropPath(rate)).train()
    return model, StochasticDepth(model)


def test_shares_of_a_batch_are_those_of_the_whole() -> None:
    model, depth = layer()
    images = torch.randn(7, 3, 2, 2)
    depth.place(range(7), 7, 0, 5)
    whole = model(images)
    for places in ([0, 6, 2], [5], [1, 3, 4]):
        depth.place(places, 7, 0, 5)
        assert torch.equal(model(images[places]), whole[places])


def test_images_are_left_out_as_often_as_they_should_and_the_mean_stays() -> None:
    model, depth = layer(0.3)
    depth.place(range(10_000), 10_000, 1)
    kept = model(torch.ones(10_000, 1)).flatten()
    share = float((kept > 0).double().mean())
    assert abs(share - 0.7) < 4 * (0.7 * 0.3 / 10_000) ** 0.5
    assert torch.equal(kept.unique(), torch.tensor([0.0, 1 / 0.7]))


def test_places_layers_and_calls_draw_their_own() -> None:
    model = nn.ModuleList([DropPath(0.5), DropPath(0.5)]).train()
    depth = StochasticDepth(model)
    images = torch.ones(64, 1)
    depth.place(range(64), 64, 1)
    drawn = [model[0](images), model[0](images), model[1](images)]
    depth.place(range(64), 64, 2)
    drawn.append(model[0](images))
    assert len({tuple(one.flatten().tolist()) for one in drawn}) == 4
    depth.place(range(64), 64, 1)
    assert torch.equal(model[0](images), drawn[0])


def test_generators_of_others_are_left_alone_and_copies_can_be_made() -> None:
    model, depth = layer()
    depth.place(range(4), 4, 1)
    before = torch.get_rng_state()
    model(torch.ones(4, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(copy.deepcopy(model)[0], PlacedDropPath)


def test_a_model_is_as_before_afterwards_and_in_evaluation() -> None:
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, drop_path_rate=0.4)
    plain = [type(module) for module in model.modules()]
    depth = StochasticDepth(model)
    assert (
        sum(isinstance(module, PlacedDropPath) for module in model.modules()) == 2
    )  # the first block has none
    depth.place(range(3), 3, 1)
    images = torch.ones(3, 1)
    assert torch.equal(model.eval().blocks[1].drop_path1(images), images)
    depth.release()
    assert [type(module) for module in model.modules()] == plain
    assert "placed" not in vars(model.blocks[1].drop_path1)


def test_passes_that_are_computed_twice_keep_timms_own() -> None:
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, drop_path_rate=0.4)
    model.set_grad_checkpointing()
    StochasticDepth(model)
    assert not any(isinstance(module, PlacedDropPath) for module in model.modules())
