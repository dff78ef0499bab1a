"""Stochastic depth drawn for whole batches."""

import copy

import timm
import torch
from timm.layers import DropPath
from torch import nn

from vitscope.training.stochastic_depth import PlacedDropPath, StochasticDepth


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
