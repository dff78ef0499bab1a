"""Steps of the optimiser: order, schedule, decay, divergence."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from vitscope.data import data_config, load_data
from vitscope.models import create_model
from vitscope.training.checkpoint import Progress
from vitscope.training.recipe import Recipe, get_recipe
from vitscope.training.seeding import preserved, seed_all
from vitscope.training.steps import Stepper, TrainingDiverged

CPU = torch.device("cpu")
TINY = replace(get_recipe("mini"), epochs=4, batch_size=16, warmup_epochs=1)


def make(recipe: Recipe = TINY, n: int = 60, name: str = "vit_mini", **arguments: Any) -> Stepper:
    seed_all(0)
    model = create_model(name, **arguments)
    data = load_data("fashion", split="train", fraction=n / 6000)
    return Stepper(model, data, data_config(model), 10, recipe, 0, CPU)


@pytest.fixture(autouse=True)
def _own_generators() -> Any:
    with preserved():
        yield


def test_learning_rate_rises_linearly_and_falls_as_a_cosine() -> None:
    stepper = make(depth=1)
    rates: list[float] = []
    progress = Progress()
    for epoch in range(4):
        progress.epoch, progress.step = epoch, 0
        stepper.epoch(progress, lambda n, loss: rates.append(stepper.learning_rate()) or False)
    steps = stepper.steps
    for t, rate in enumerate(rates):
        if t < steps:
            expected = 1e-6 + (TINY.lr - 1e-6) * t / steps
        else:
            expected = TINY.lr / 2 * (1 + math.cos(math.pi * t / (4 * steps)))
        assert rate == pytest.approx(expected, rel=1e-9)


def test_warm_up_that_adds_comes_before_the_whole_cosine() -> None:
    stepper = make(replace(TINY, warmup_adds=True), depth=1)
    stepper.schedule.step_update(stepper.steps)
    assert stepper.learning_rate() == pytest.approx(TINY.lr)
    stepper.schedule.step_update(5 * stepper.steps - 1)
    assert 0 < stepper.learning_rate() < 0.02 * TINY.lr


@pytest.mark.parametrize("everything", [True, False])
def test_weight_decay_acts_on_what_the_recipe_says(everything: bool) -> None:
    stepper = make(replace(TINY, decay_all=everything), depth=1)
    decayed = {
        id(p)
        for group in stepper.optimizer.param_groups
        if group["weight_decay"] > 0
        for p in group["params"]
    }
    names = {name for name, p in stepper.model.named_parameters() if id(p) in decayed}
    assert ("blocks.0.norm1.bias" in names, "pos_embed" in names) == (everything, everything)
    assert "blocks.0.attn.qkv.weight" in names
    assert {group["weight_decay"] for group in stepper.optimizer.param_groups} <= {0.0, TINY.weight_decay}


def test_every_image_once_per_epoch_and_a_lonely_last_one_skipped() -> None:
    sizes: list[int] = []
    stepper = make(replace(TINY, batch_size=59), name="resnet_mini")
    assert stepper.epoch(Progress(), lambda n, loss: sizes.append(n) or False)
    assert sizes == [59]
    sizes.clear()
    make(replace(TINY, batch_size=17), name="resnet_mini").epoch(
        Progress(), lambda n, loss: sizes.append(n) or False
    )
    assert sizes == [17, 17, 17, 9]


def test_stopping_and_going_on_is_the_same_as_not_stopping() -> None:
    straight, broken = (
        make(name="resnet_mini", drop_path_rate=0.2),
        make(name="resnet_mini", drop_path_rate=0.2),
    )
    whole, parts = Progress(), Progress()
    straight.epoch(whole, lambda n, loss: False)
    while not broken.epoch(parts, lambda n, loss: True):
        torch.rand(3)  # somebody else draws in between
    assert whole == parts
    for (name, a), b in zip(
        straight.model.state_dict().items(), broken.model.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name


def test_workers_do_not_change_the_result() -> None:
    alone, helped = make(depth=1), make(depth=1)
    helped.workers = 2
    a, b = Progress(), Progress()
    alone.epoch(a, lambda n, loss: False)
    helped.epoch(b, lambda n, loss: False)
    assert a.loss_sum == b.loss_sum


def test_gradient_is_clipped() -> None:
    free, clipped = (make(replace(TINY, clip_norm=c), depth=1) for c in (None, 1e-3))
    for stepper in (free, clipped):
        stepper.epoch(Progress(), lambda n, loss: True)
    norms = [nn.utils.get_total_norm([p.grad for p in s.model.parameters()]).item() for s in (free, clipped)]
    assert norms[0] > 1e-2
    assert norms[1] == pytest.approx(1e-3, rel=1e-3)


def test_loss_that_is_no_number_stops_the_epoch() -> None:
    stepper = make(depth=1)
    nn.init.constant_(stepper.model.head.weight, math.nan)
    with pytest.raises(TrainingDiverged, match="the loss is nan in epoch 3, step 4"):
        stepper.epoch(Progress(epoch=2), lambda n, loss: False)
