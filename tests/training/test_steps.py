"""Steps of the optimiser: order, schedule, decay, divergence."""

import copy
import math
from collections import deque
from contextlib import closing
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vitscope.data import DataConfig, data_config, load_data
from vitscope.models import create_model
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import STEP, random_state_preserved, seed_all
from vitscope.training.checkpoint import Progress
from vitscope.training.sharding import batches
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
    with random_state_preserved():
        yield


def run(stepper: Stepper, progress: Progress | None = None, steps: int | None = None) -> Progress:
    """Go on from `progress`, or begin, for so many steps at most, or to the end of the epoch."""
    progress = progress or Progress()
    with closing(stepper.epoch(progress)) as taken:
        deque(islice(taken, steps), maxlen=0)
    return progress


def test_learning_rate_rises_linearly_and_falls_as_a_cosine() -> None:
    stepper = make(depth=1)
    rates: list[float] = []
    progress = Progress()
    for epoch in range(4):
        progress.epoch, progress.step = epoch, 0
        rates += [stepper.learning_rate() for _ in stepper.epoch(progress)]
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


def test_every_image_once_per_epoch_and_a_lonely_last_one_skipped() -> None:
    for batch_size, expected in ((59, [59]), (17, [17, 17, 17, 9])):
        stepper = make(replace(TINY, batch_size=batch_size), name="resnet_mini")
        assert [n for n, _ in stepper.epoch(Progress())] == expected


def test_stopping_and_going_on_is_the_same_as_not_stopping() -> None:
    straight, broken = (
        make(name="resnet_mini", drop_path_rate=0.2),
        make(name="resnet_mini", drop_path_rate=0.2),
    )
    whole, parts = Progress(), Progress()
    run(straight, whole)
    while parts.step < broken.steps:
        run(broken, parts, 1)
        torch.rand(3)  # somebody else draws in between
    assert replace(whole, waited=0) == replace(parts, waited=0)
    for (name, a), b in zip(
        straight.model.state_dict().items(), broken.model.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name


def test_workers_do_not_change_the_result() -> None:
    alone, helped = make(depth=1), make(depth=1)
    helped.workers = 2
    assert run(alone).loss_sum == run(helped).loss_sum


def test_gradient_is_clipped() -> None:
    free, clipped = (make(replace(TINY, clip_norm=c), depth=1) for c in (None, 1e-3))
    for stepper in (free, clipped):
        run(stepper, steps=1)
    norms = [nn.utils.get_total_norm([p.grad for p in s.model.parameters()]).item() for s in (free, clipped)]
    assert norms[0] > 1e-2
    assert norms[1] == pytest.approx(1e-3, rel=1e-3)


class Small(nn.Module):
    """Without batch normalisation and in float64, so that sums in another order agree to rounding."""

    def __init__(self, norm: bool = False, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dtype = dtype
        self.conv = nn.Conv2d(3, 6, 5, stride=4)
        self.norm = nn.BatchNorm2d(6) if norm else nn.Identity()
        self.head = nn.Linear(6, 10)
        self.to(dtype)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(images.to(self.dtype))).tanh().mean((2, 3)))


CONFIG = DataConfig(input_size=(3, 32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0)
MIXED = replace(get_recipe("hdv"), epochs=4, batch_size=16, lr=1e-2, warmup_epochs=0)
SGD = replace(MIXED, optimizer="momentum", weight_decay=0.0)


def small(recipe: Recipe, norm: bool = False, model: nn.Module | None = None, **arguments: Any) -> Stepper:
    data = load_data("fashion", split="train", fraction=60 / 6000)
    return Stepper(model or Small(norm), data, CONFIG, 10, recipe, 0, CPU, **arguments)


def taken(stepper: Stepper, steps: int) -> list[tuple[Tensor, Tensor]]:
    """The mixed images and targets of the first steps, drawn as the stepper does."""
    chunks = batches(60, stepper.recipe.batch_size, 0, 0)[:steps]
    found = []
    for step, chunk in enumerate(chunks):
        items = [stepper.data[i] for i in chunk]
        seed_all(STEP, 0, 0, step)
        found.append(stepper.mixed(torch.stack([x for x, _ in items]), torch.tensor([y for _, y in items])))
    return found


def same(a: nn.Module, b: nn.Module) -> None:
    for (name, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-11, msg=name)


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_accumulation_is_one_batch(parts: int, clip: float | None) -> None:
    whole, cut = (small(replace(SGD, accumulate=k, clip_norm=clip)) for k in (1, parts))
    a, b = run(whole, steps=4), run(cut, steps=4)
    assert a.loss_sum == pytest.approx(b.loss_sum, rel=1e-12)
    same(whole.model, cut.model)


def test_stochastic_depth_does_not_know_of_accumulation() -> None:
    recipe = replace(TINY, optimizer="sgd")
    whole, cut = (make(replace(recipe, accumulate=k), depth=2, drop_path_rate=0.5) for k in (1, 3))
    losses = [run(stepper, steps=3).loss_sum for stepper in (whole, cut)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize(("accumulate", "norm"), [(1, False), (1, True), (4, False)])
def test_sam_by_hand(accumulate: int, norm: bool, clip: float | None) -> None:
    recipe = replace(SGD, optimizer="sgd", sam_rho=0.3, accumulate=accumulate, clip_norm=clip)
    stepper, model = small(recipe, norm), Small(norm)
    run(stepper, steps=3)
    velocity = [torch.zeros_like(p) for p in model.parameters()]
    for step, (x, y) in enumerate(taken(stepper, 3)):
        statistics = {}
        for shift in (False, True):
            model.zero_grad()
            nn.functional.cross_entropy(model(x), y.double()).backward()
            g = [p.grad.clone() for p in model.parameters()]
            length = torch.cat([d.flatten() for d in g]).norm()
            with torch.no_grad():
                if not shift:
                    statistics = {k: b.clone() for k, b in model.named_buffers()}
                    start = [p.clone() for p in model.parameters()]
                    for p, d in zip(model.parameters(), g, strict=True):
                        p += 0.3 * d / length
                    continue
                for k, b in model.named_buffers():
                    b.copy_(statistics[k])
                factor = min(1.0, clip / (float(length) + 1e-6)) if clip else 1.0
                rate = 1e-2 / 2 * (1 + math.cos(math.pi * step / 16))
                for i, (p, d) in enumerate(zip(model.parameters(), g, strict=True)):
                    velocity[i] = 0.9 * velocity[i] + factor * d
                    p.copy_(start[i] - rate * (factor * d + 0.9 * velocity[i]))
    same(stepper.model, model)
    if norm:
        assert int(stepper.model.norm.num_batches_tracked) == 3


def test_sam_draws_the_same_dropout_twice_and_none_afterwards() -> None:
    stepper = make(replace(TINY, sam_rho=0.05), depth=1, proj_drop_rate=0.5)
    seen: list[Tensor] = []
    drop = next(m for m in stepper.model.modules() if isinstance(m, nn.Dropout) and m.p > 0)
    drop.register_forward_hook(lambda module, inputs, output: seen.append(output.detach() == 0))
    run(stepper, steps=2)
    assert len(seen) == 4
    assert (seen[0] == seen[1]).float().mean() > 0.999
    assert (seen[0] == seen[2]).float().mean() < 0.9


def test_average_of_weights_by_hand() -> None:
    stepper = small(replace(SGD, ema_decay=0.7), norm=True)
    average: dict[str, Tensor] = {}
    progress = Progress()

    for _ in islice(stepper.epoch(progress), 4):
        for name, value in stepper.model.state_dict().items():
            if (
                progress.step == 1 or not value.is_floating_point()
            ):  # timm starts from the first step's weights
                average[name] = value.clone()
            else:
                average[name] = 0.7 * average[name] + 0.3 * value
    assert stepper.measured is not stepper.model
    for name, value in stepper.measured.state_dict().items():
        torch.testing.assert_close(value, average[name], rtol=1e-12, atol=1e-14)
    assert small(SGD).measured is not None


def test_what_else_must_survive_does() -> None:
    recipe = replace(SGD, ema_decay=0.9, amp="float16")
    straight, broken, resumed = (small(recipe, model=Small(True, torch.float32)) for _ in range(3))
    whole, parts = run(straight), run(broken, steps=2)
    resumed.model.load_state_dict(broken.model.state_dict())
    resumed.optimizer.load_state_dict(copy.deepcopy(broken.optimizer.state_dict()))
    kept = {name: tensor.clone() for name, tensor in broken.extra_tensors().items()}
    assert {"scaler.scale", "scaler.growth"} < kept.keys()
    resumed.load_extra_tensors(kept)
    run(resumed, parts)
    assert replace(parts, waited=0) == replace(whole, waited=0)
    for a, b in ((straight.model, resumed.model), (straight.measured, resumed.measured)):
        assert all(
            torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
        )
    assert torch.equal(straight.extra_tensors()["scaler.scale"], resumed.extra_tensors()["scaler.scale"])


@pytest.mark.parametrize("rho", [None, 0.05])
def test_half_precision_learns_the_same_to_its_precision(rho: float | None) -> None:
    full, half = (
        small(replace(SGD, amp=amp, sam_rho=rho), model=Small(dtype=torch.float32))
        for amp in ("never", "float16")
    )
    a, b = run(full, steps=4), run(half, steps=4)
    assert b.loss_sum == pytest.approx(a.loss_sum, rel=2e-3)
    assert b.loss_sum != a.loss_sum
    for x, y in zip(full.model.parameters(), half.model.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=0.02, atol=2e-4)


def test_too_large_a_scale_skips_a_step_and_is_halved() -> None:
    stepper = small(replace(SGD, amp="float16", patience=1), model=Small(dtype=torch.float32))
    stepper.load_extra_tensors({"scaler.scale": torch.tensor(2.0**40), "scaler.growth": torch.tensor(0)})
    progress = run(stepper, steps=4)
    assert (stepper.patience.skipped, progress.step, progress.images) == (4, 4, 0)
    assert float(stepper.extra_tensors()["scaler.scale"]) == 2.0**36


def test_repeated_augmentation_trains_on_a_third_of_the_images() -> None:
    stepper = small(replace(SGD, repeats=3, batch_size=15))
    assert run(stepper, steps=4).images == 60
    first, second = (stepper.data[batches(60, 15, 0, 0, 3)[0][i]] for i in (0, 1))
    assert first[1] == second[1]
    assert not torch.equal(first[0], second[0])


def test_distillation_token_learns_from_the_teacher() -> None:
    recipe = replace(get_recipe("deit-distill"), batch_size=16, distill_weight=1.0)
    seed_all(0)
    model = create_model("deit_tiny_distilled_patch16_224", num_classes=10, img_size=32, depth=1)
    data = load_data("fashion", split="train", fraction=0.01)
    teacher = create_model("resnet_mini", num_classes=10)
    before = model.head.weight.clone(), model.head_dist.weight.clone()
    stepper = Stepper(model, data, data_config(model), 10, recipe, 0, CPU, teacher=teacher)
    weights = copy.deepcopy(teacher.state_dict())
    run(stepper, steps=2)
    assert model.head.weight.grad.abs().max() == 0  # all the weight is on the other token
    assert not torch.equal(model.head_dist.weight, before[1])
    assert isinstance(model(torch.zeros(1, 3, 32, 32)), Tensor)
    assert all(torch.equal(weights[k], v) for k, v in teacher.state_dict().items())


@pytest.mark.parametrize(("asked", "last"), [("auto", True), ("always", True), ("never", False)])
def test_memory_layout(asked: str, last: bool) -> None:
    stepper = small(replace(SGD, channels_last=asked))
    run(stepper, steps=1)
    assert stepper.model.conv.weight.is_contiguous(memory_format=torch.channels_last) == last


def test_wrapped_model_is_what_runs() -> None:
    class Wrapper(nn.Module):
        calls = 0

        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, images: Tensor) -> Tensor:
            Wrapper.calls += 1
            return self.module(images)

    stepper, plain = small(SGD, wrap=Wrapper), small(SGD)
    run(stepper, steps=2)
    run(plain, steps=2)
    assert Wrapper.calls == 2
    same(stepper.model, plain.model)


class Spoiled(nn.Module):
    """Makes the images of chosen steps NaN."""

    def __init__(self, module: nn.Module, bad: set[int]) -> None:
        super().__init__()
        self.module, self.bad, self.step = module, bad, 0

    def forward(self, images: Tensor) -> Tensor:
        self.step += 1
        return self.module(images * (math.nan if self.step - 1 in self.bad else 1.0))


def test_steps_without_a_number_are_not_taken() -> None:
    recipe = replace(SGD, batch_size=6, ema_decay=0.5)
    stepper = small(recipe, norm=True, wrap=lambda model: Spoiled(model, {1, 2, 5}))
    progress = Progress()
    before = [copy.deepcopy(stepper.model.state_dict()) for _ in stepper.epoch(progress)]
    changed = [any(not torch.equal(a[k], b[k]) for k in a) for a, b in pairwise(before)]
    assert changed == [step not in {1, 2, 5} for step in range(1, 10)]
    assert (progress.images, progress.step, stepper.patience.skipped) == (42, 10, 3)
    assert math.isfinite(progress.loss_sum)
    for model in (stepper.model, stepper.measured):
        assert all(bool(v.isfinite().all()) for v in model.state_dict().values())
    assert int(stepper.model.norm.num_batches_tracked) == 7


def test_with_sam_every_number_of_the_gradient_counts() -> None:
    stepper = make(replace(TINY, sam_rho=0.05, clip_norm=None, patience=9), depth=1)
    weight = stepper.model.blocks[0].mlp.fc1.weight

    def spoil(parameter: Tensor) -> None:
        parameter.grad[7, 7] = math.inf  # no way back leaves one alone, so a quick look would not see it

    weight.register_post_accumulate_grad_hook(spoil)
    assert weight.numel() > 1 << 14
    run(stepper, steps=1)
    assert stepper.patience.skipped == 1
    stepper.check_weights(Progress())


def test_states_of_the_optimiser_that_are_not_finite_are_not_to_be_written() -> None:
    stepper = make(depth=1)
    run(stepper, steps=1)
    stepper.check_weights(Progress())
    next(iter(stepper.optimizer.state.values()))["exp_avg"].view(-1)[-1] = math.inf
    with pytest.raises(
        TrainingDiverged, match="what the optimiser keeps of it, is no longer finite in epoch 2"
    ):
        stepper.check_weights(Progress(epoch=1))


def test_loss_that_stays_no_number_stops_the_epoch() -> None:
    stepper = make(depth=1)
    nn.init.constant_(stepper.model.head.weight, math.nan)
    with pytest.raises(TrainingDiverged, match=r"loss is nan in epoch 3, step 3, .* of fashion \(train\)"):
        run(stepper, Progress(epoch=2))


def test_epoch_shorter_than_the_patience_without_a_number_stops_too() -> None:
    stepper = small(replace(SGD, batch_size=30), wrap=lambda model: Spoiled(model, {0, 1}))
    with pytest.raises(TrainingDiverged, match="no step of epoch 1 had a finite loss"):
        run(stepper, steps=5)
