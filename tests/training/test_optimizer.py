"""Optimiser and schedule: rates in closed form, what is decayed, and going on after loading."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.models import create_model
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.training.optimizer import build_optimizer, build_schedule

CPU = torch.device("cpu")
PLAIN = Recipe(epochs=8, batch_size=64, lr=0.2, warmup_epochs=2, warmup_lr=0.01, min_lr=0.02)


def rates(recipe: Recipe, steps: int = 10) -> list[float]:
    optimizer = build_optimizer(nn.Linear(2, 2), recipe, CPU)
    schedule = build_schedule(optimizer, recipe, steps)
    seen = []
    for t in range(math.ceil(recipe.total_epochs) * steps):
        schedule.step_update(t)
        seen.append(optimizer.param_groups[0]["lr"])
    return seen


def test_warm_up_inside_the_cosine() -> None:
    seen = rates(PLAIN)
    assert seen[0] == pytest.approx(0.01)
    assert seen[10] == pytest.approx((0.01 + 0.2) / 2)
    for t in (20, 40, 79):
        assert seen[t] == pytest.approx(0.02 + 0.18 / 2 * (1 + math.cos(math.pi * t / 80)))
    assert seen[40] == pytest.approx((0.02 + 0.2) / 2)


def test_warm_up_before_the_cosine() -> None:
    seen = rates(replace(PLAIN, warmup_adds=True))
    assert len(seen) == 100
    assert seen[20] == pytest.approx(0.2)
    assert seen[60] == pytest.approx((0.02 + 0.2) / 2)
    assert seen[99] == pytest.approx(0.02 + 0.18 / 2 * (1 + math.cos(math.pi * 79 / 80)))


def test_milestones() -> None:
    recipe = replace(get_recipe("cnn"), epochs=10, warmup_lr=0.0)
    seen = rates(recipe)
    assert seen[5] == pytest.approx(0.05)
    after_warm_up = seen[10:]
    for t, power in ((0, 0), (28, 0), (31, 1), (58, 1), (61, 2), (78, 2), (81, 3), (99, 3)):
        assert after_warm_up[t] == pytest.approx(0.1 * 0.2**power)


def test_rate_is_scaled_to_the_batch() -> None:
    seen = rates(replace(PLAIN, lr_per=256, min_lr=0.0, warmup_epochs=0))
    assert seen[0] == pytest.approx(0.2 * 64 / 256)


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("layer_decay", [None, 0.5])
def test_weight_decay_acts_on_what_the_recipe_says(everything: bool, layer_decay: float | None) -> None:
    model = create_model("vit_mini", depth=1)
    optimizer = build_optimizer(model, replace(PLAIN, decay_all=everything, layer_decay=layer_decay), CPU)
    groups = optimizer.param_groups
    decayed = {id(p) for group in groups if group["weight_decay"] > 0 for p in group["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in decayed}
    assert ("blocks.0.norm1.bias" in names, "pos_embed" in names) == (everything, everything)
    assert "blocks.0.attn.qkv.weight" in names
    assert {group["weight_decay"] for group in groups} <= {0.0, PLAIN.weight_decay}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def test_what_is_spared_does_not_depend_on_where_a_model_comes_from() -> None:
    model = nn.Module()
    model.cls, model.pos = (nn.Parameter(torch.ones(1, n, 4)) for n in (1, 9))
    model.map = nn.Linear(4, 4)
    for everything, decayed in ((True, [1, 9, 4, 4]), (False, [4])):
        groups = build_optimizer(model, replace(PLAIN, decay_all=everything), CPU).param_groups
        found = [
            p.shape[-2] if p.ndim > 1 else len(p) for g in groups if g["weight_decay"] for p in g["params"]
        ]
        assert found == decayed


def test_layer_decay_in_closed_form() -> None:
    model = create_model("vit_mini", depth=4)
    recipe = replace(PLAIN, layer_decay=0.5)
    optimizer = build_optimizer(model, recipe, CPU)
    build_schedule(optimizer, recipe, steps=10).step_update(40)
    rate = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    at = 0.02 + 0.18 / 2 * (1 + math.cos(math.pi / 2))
    named = dict(model.named_parameters())
    for name, above in [
        ("head.weight", 0),
        ("blocks.3.attn.qkv.weight", 1),
        ("blocks.0.mlp.fc1.weight", 4),
        ("patch_embed.proj.weight", 5),
        ("pos_embed", 5),
    ]:
        assert rate[id(named[name])] == pytest.approx(at * 0.5**above), name


def test_layer_decay_without_known_layers_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with pytest.raises(VitscopeError, match="Sequential does not tell its layers"):
        build_optimizer(model, replace(PLAIN, layer_decay=0.5), CPU)


def test_frozen_parameters_stay_out() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    groups = build_optimizer(model, replace(PLAIN, decay_all=True), CPU).param_groups
    assert [p is model.weight for group in groups for p in group["params"]] == [True]


@pytest.mark.parametrize("name", ["adamw", "momentum"])
def test_fused_step_goes_on_bit_for_bit_after_loading_what_was_stored_contiguously(name: str) -> None:
    recipe = replace(PLAIN, optimizer=name)
    torch.manual_seed(0)
    model = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    optimizer = build_optimizer(model, recipe, CPU)
    assert optimizer.param_groups[0]["fused"]
    batches = torch.randn(6, 2, 3, 8, 8)

    def step(net: nn.Module, rule: torch.optim.Optimizer, images: torch.Tensor) -> None:
        rule.zero_grad()
        net(images.contiguous(memory_format=torch.channels_last)).square().mean().backward()
        rule.step()

    for images in batches[:3]:
        step(model, optimizer, images)
    again = copy.deepcopy(model)
    resumed = build_optimizer(again, recipe, CPU)
    state = copy.deepcopy(optimizer.state_dict())
    for values in state["state"].values():
        values.update({k: v.contiguous() for k, v in values.items() if isinstance(v, torch.Tensor)})
    resumed.load_state_dict(state)
    for images in batches[3:]:
        step(model, optimizer, images)
        step(again, resumed, images)
    assert torch.equal(model.weight, again.weight)


def test_fused_step_is_adamw() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4, bias=False).double()
    w, m, v = model.weight.detach().clone(), torch.zeros(4, 4).double(), torch.zeros(4, 4).double()
    optimizer = build_optimizer(model, replace(PLAIN, weight_decay=0.1), CPU)
    for t in range(1, 4):
        x = torch.randn(5, 4).double()
        optimizer.zero_grad()
        model(x).square().sum().backward()
        g = model.weight.grad.clone()
        optimizer.param_groups[0]["lr"] = 0.2
        optimizer.step()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.2 * 0.1 * w - 0.2 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        torch.testing.assert_close(model.weight.detach(), w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_fused_step_over_channels_last_is_the_plain_one_over_contiguous_weights(kind) -> None:
    options = {"lr": 0.01, **({"momentum": 0.9} if kind is torch.optim.SGD else {})}
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten(), nn.Linear(16, 2))
    last = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    ways = (
        (plain, kind(plain.parameters(), fused=False, foreach=False, **options)),
        (last, kind(last.parameters(), fused=True, **options)),
    )
    for images in torch.randn(5, 4, 3, 4, 4):
        for model, optimizer in ways:
            optimizer.zero_grad(set_to_none=True)
            model(images).square().mean().backward()
            optimizer.step()
    for expected, found in zip(plain.parameters(), last.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert last[0].weight.is_contiguous(memory_format=torch.channels_last)
