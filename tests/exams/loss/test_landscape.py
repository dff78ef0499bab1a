import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.landscape_cases import convolutional, images, linear, nudged, tiny_vit, write_run
from tests.exams.landscape_job import numbers
from tests.processes import run
from vitscope.core.errors import VitscopeError
from vitscope.curvature.parameters import moved_parameters
from vitscope.curvature.plane import flat, random_directions
from vitscope.engine.held_batches import HeldBatches
from vitscope.engine.resuming import PartialResults
from vitscope.exams.loss.landscape import landscape
from vitscope.findings.landscape import LandscapeResult

PLAIN = {"recipe": None, "batch_size": 6, "points": 3}


def state(model: nn.Module) -> dict[str, tuple[int, bytes, tuple[int, ...]]]:
    """Where every tensor lies, its bits, its strides."""
    return {
        name: (t.data_ptr(), t.contiguous().numpy().tobytes(), t.stride())
        for name, t in model.state_dict().items()
    }


def nll_by_hand(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(1, keepdims=True)
    return np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(labels)), labels]


@torch.no_grad()
def expected_table(model: nn.Module, *data: torch.Tensor) -> dict[tuple[str, None], Any]:
    batches, lacking = -(-len(data[0]) // 4), -len(data[0]) % 4
    held = HeldBatches(model, data, 4, batches, None, seed=0, left_out=lacking)
    moved = moved_parameters(model, (3, 32, 32))
    pictures = torch.cat([held[i].images for i in range(batches)]).double()
    truth = torch.cat([held[i].targets for i in range(batches)]).numpy()
    before = [m.parameter.clone() for m in moved]
    along, across = random_directions(moved)
    found: dict[str, list[float]] = {"nll": [], "l2": [], "loss": [], "accuracy": [], "rise": []}
    nll_there = nll_by_hand(model(pictures).numpy(), truth)
    for y in (-1.0, 0.0, 1.0):
        for x in (-1.0, 0.0, 1.0):
            for m, start, a, b in zip(moved, before, along, across, strict=True):
                m.parameter.copy_(start + x * a + y * b)
            logits = model(pictures).numpy()
            nll = nll_by_hand(logits, truth)
            l2 = 0.025 * sum(p.square().sum().item() for p in model.parameters())
            numbers = (nll.mean(), l2, nll.mean() + l2, (logits.argmax(1) == truth).mean())
            for values, number in zip(found.values(), (*numbers, (nll - nll_there).mean()), strict=True):
                values.append(number)
    edge = np.delete(found["rise"], 4).mean()
    whole = {"centre nll": nll_there.mean(), "centre l2": found["l2"][4], "edge rise": edge}
    return {(quantity, None): values for quantity, values in {**found, **whole}.items()}


def test_a_linear_model_by_hand_on_every_point() -> None:
    model, (pictures, labels) = linear(), images()
    found = landscape(model, (pictures, labels), points=5, span=2.0, weight_decay=0.3, recipe=None)
    np.testing.assert_allclose(found.x, [-2, -1, 0, 1, 2])
    a, b = (d[0].numpy() for d in random_directions(moved_parameters(model, (3, 4, 4))))
    weight, bias = (p.detach().numpy() for p in model.parameters())
    data, truth = pictures.reshape(12, -1).numpy(), labels.numpy()
    centre = nll_by_hand(data @ weight.T + bias, truth)
    for i, y in enumerate(found.y):
        for j, x in enumerate(found.x):
            moved = weight + x * a + y * b
            logits = data @ moved.T + bias
            nll = nll_by_hand(logits, truth)
            assert found.nll.value[i, j] == pytest.approx(nll.mean(), rel=1e-10)
            assert found.accuracy.value[i, j] == (logits.argmax(1) == truth).mean()
            assert found.l2[i, j] == pytest.approx(0.15 * ((moved**2).sum() + (bias**2).sum()), rel=1e-10)
            assert found.rise.value[i, j] == pytest.approx((nll - centre).mean(), rel=1e-8, abs=1e-12)
            half = (
                2.200985160 * (nll - centre).std(ddof=1) / np.sqrt(12)
            )  # Student's t, 11 degrees of freedom
            assert found.rise.high[i, j] - found.rise.value[i, j] == pytest.approx(half, rel=1e-3, abs=1e-12)
    np.testing.assert_allclose(found.loss, found.nll.value + found.l2)
    assert found.moved == ("1.weight",)
    assert (found.moved_numbers, found.parameters, found.n) == (144, 147, 12)


def test_the_centre_is_the_plain_evaluation_of_the_same_augmented_images() -> None:
    """Claim C3's data end to end: RandAugment, mixup and smoothing, drawn once."""
    from vitscope.engine.held_batches import HeldBatches

    model, data = tiny_vit(), vs.load_data("fashion", split="train")
    found = landscape(model, data, points=3, limit=40, batch_size=16)
    held = HeldBatches(model, data, 16, 3, "hdv", seed=0, left_out=8)
    batches = [held[0], held[1], held[2]]
    with torch.no_grad():
        logits = torch.cat([model.eval()(batch.images) for batch in batches]).double()
    targets = torch.cat([batch.targets for batch in batches]).double()
    nll = -(targets * logits.log_softmax(1)).sum(1)
    assert found.n == 40  # the last batch is short
    assert found.centre.nll.value == pytest.approx(nll.mean().item(), rel=1e-6)
    assert found.nll.value[1, 1] == pytest.approx(found.centre.nll.value, rel=1e-6)
    assert found.centre.accuracy.value == (logits.argmax(1) == targets.argmax(1)).double().mean().item()
    assert (found.augmentation, found.data, found.decay_all) == ("hdv", "fashion (train)", True)
    norms = sum(p.detach().double().square().sum().item() for p in model.parameters())
    assert found.centre.l2 == pytest.approx(0.025 * norms, rel=1e-6)


def test_batch_norm_statistics_are_kept_or_estimated_at_every_point() -> None:
    model, (pictures, labels) = convolutional(), images()
    before = state(model)
    kept = landscape(model, (pictures, labels), **PLAIN)
    estimated = landscape(model, (pictures, labels), batch_norm="estimated", **PLAIN)
    assert state(model) == before
    a, b = random_directions(moved_parameters(model, (3, 4, 4)))
    by_hand = convolutional()
    with torch.no_grad():
        for m, x, y in zip(moved_parameters(by_hand, (3, 4, 4)), a, b, strict=True):
            m.parameter.add_(x).add_(y)
        there = nn.functional.cross_entropy(by_hand(pictures), labels).item()
        for norm in (by_hand[1], by_hand[4]):
            norm.reset_running_stats()
            norm.momentum = None
        by_hand.train()
        for held in HeldBatches(model, (pictures, labels), 6, 2, recipe=None, seed=0):
            by_hand(held.images.to(pictures))
        anew = nn.functional.cross_entropy(by_hand.eval()(pictures), labels).item()
    assert kept.nll.value[2, 2] == pytest.approx(there, rel=1e-9)
    assert estimated.nll.value[2, 2] == pytest.approx(anew, rel=1e-9)
    with pytest.raises(VitscopeError, match="batch_norm is 'off'; expected kept or estimated"):
        landscape(model, (pictures, labels), batch_norm="off")  # type: ignore[arg-type]


class After:
    """A forward hook that acts at the so-manieth pass and counts all of them."""

    def __init__(self, model: nn.Module, passes: int, act) -> None:
        self.count, self._passes, self._act = 0, passes, act
        self.handle = model.register_forward_hook(self)

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == self._passes:
            self._act()


def fail() -> None:
    raise RuntimeError("out of luck")


def ctrl_c() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("act", "error"), [(fail, RuntimeError), (ctrl_c, KeyboardInterrupt)])
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_everything_is_put_back_after_an_accident(act, error, memory_format) -> None:
    model = convolutional().train()
    before, random = state(model), torch.get_rng_state()
    accident = After(model, 12, act)
    with pytest.raises(error):
        landscape(model, images(), batch_norm="estimated", memory_format=memory_format, **PLAIN)
    accident.handle.remove()
    assert state(model) == before
    assert all(module.training for module in model.modules())
    assert torch.equal(torch.get_rng_state(), random)
    assert not model._forward_hooks


@pytest.mark.parametrize("act", [ctrl_c, lambda: signal.raise_signal(signal.SIGINT)])
def test_an_interrupted_landscape_goes_on_with_the_same_digits(tmp_path: Path, act) -> None:
    data = images()
    formats = ("contiguous", "channels_last")  # which one is faster is found by trying; digits depend on it
    wholes = [landscape(convolutional(), data, memory_format=order, **PLAIN) for order in formats]
    model = convolutional()
    accident = After(model, 16 + 12, act)
    with pytest.raises(KeyboardInterrupt):
        landscape(model, data, parts=PartialResults(tmp_path, "landscape", "key"), **PLAIN)
    accident.handle.remove()
    counter = After(model, 0, act)
    again = landscape(model, data, parts=PartialResults(tmp_path, "landscape", "key"), **PLAIN)
    fields = ("nll", "rise", "accuracy")
    assert any(all(np.array_equal(getattr(again, f), getattr(w, f)) for f in fields) for w in wholes)
    full = After(other := convolutional(), 0, act)
    landscape(other, data, **PLAIN)
    assert 0 < counter.count < full.count - 6  # neither the trial of memory formats nor finished points


class Overflowing(nn.Module):
    """Scores that leave the range of numbers soon."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(48, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (3.0 * self.linear(x.flatten(1))).exp().exp()


def test_infinite_losses_are_kept_and_counted(tmp_path: Path) -> None:
    pictures, labels = images()
    found = landscape(Overflowing(), (pictures.float(), labels), points=5, span=3.0, recipe=None)
    assert 0 < found.not_finite < 25
    assert np.isfinite(found.centre.nll.value)
    summary = found.summary().set_index("quantity")
    assert summary.loc["points not finite", "value"] == found.not_finite
    table = found.table()
    assert (~np.isfinite(table[table["quantity"] == "nll"]["value"])).sum() == found.not_finite
    found.save(tmp_path)
    loaded = LandscapeResult.load(tmp_path)
    np.testing.assert_array_equal(loaded.nll.value, found.nll.value)
    assert loaded.centre == found.centre


def test_a_model_that_draws_random_numbers_draws_the_same_everywhere() -> None:
    model = nn.Sequential(linear(), *[_AlwaysDropout()])
    found = [landscape(model, images(), **PLAIN) for _ in range(2)]
    np.testing.assert_array_equal(found[0].nll.value, found[1].nll.value)
    assert found[0].nll.value[1, 1] == found[0].centre.nll.value


class _AlwaysDropout(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5, training=True)


def test_two_others_lie_on_the_plane_through_all_three() -> None:
    model = convolutional()
    others = [nudged(model, 0.2, 1), nudged(model, 0.3, 2)]
    found = landscape(model, images(), directions="pca", others=others, **PLAIN)
    assert [mark.off < 1e-6 for mark in found.marks] == [True, True]
    assert found.explained.sum() == pytest.approx(1.0)
    names = list(found.moved)
    for mark, other in zip(found.marks, others, strict=True):
        theirs, own = dict(other.named_parameters()), dict(model.named_parameters())
        distance = flat([theirs[n] - own[n] for n in names]).norm().item()
        assert np.hypot(mark.x, mark.y) == pytest.approx(distance, rel=1e-6)  # directions of length one
        assert found.x[0] < mark.x < found.x[-1]
        assert found.y[0] < mark.y < found.y[-1]
    with pytest.raises(VitscopeError, match=r"Sequential does not fit the model: '0.weight' is missing"):
        landscape(model, images(), others=[linear()], **PLAIN)


def test_checkpoints_of_a_run_are_marked_in_the_order_of_the_training(tmp_path: Path) -> None:
    model = tiny_vit()
    states = {"init": (0.0, nudged(model, 0.3, 1)), "epoch-001": (1.0, nudged(model, 0.1, 2))}
    run = write_run(tmp_path / "run", {**states, "best": (2.0, model), "last": (2.0, model)})
    data = vs.load_data("fashion", split="train")
    found = landscape(model, data, points=3, limit=16, batch_size=8, directions="pca", run=run)
    assert [(mark.name, mark.epoch) for mark in found.marks] == [
        ("init", 0.0),
        ("epoch-001", 1.0),
        ("best", 2.0),
    ]
    assert (found.marks[2].x, found.marks[2].y) == pytest.approx((0.0, 0.0))
    assert found.marks[0].x > 0
    assert found.tables()["landscape_marks"]["name"].tolist() == ["init", "epoch-001", "best"]


def test_along_the_steepest_directions_the_loss_curves_by_the_eigenvalue() -> None:
    model = linear()
    found = landscape(
        model, images(), points=3, span=1e-3, directions="hessian", recipe=None, weight_decay=0.2
    )
    assert (found.residuals < 1e-2).all()
    loss, step = found.loss, 1e-3
    for place, line in enumerate((loss[1], loss[:, 1])):
        curvature = (line[0] - 2 * line[1] + line[2]) / step**2
        assert curvature == pytest.approx(found.eigenvalues[place], rel=1e-3)


def test_diagnose_runs_it_on_the_training_split_and_keeps_it(tmp_path: Path) -> None:
    model, data = tiny_vit(), vs.load_data("fashion", split="test")
    request = {"exams": ["landscape"], "limit": 8, "batch_size": 8, "out": tmp_path / "run"}
    found = vs.diagnose(model, data, **request)["landscape"]
    assert isinstance(found, LandscapeResult)
    assert (found.data, found.n, found.nll.value.shape) == ("fashion (train)", 8, (21, 21))
    assert (found.x[0], found.x[-1]) == (-1.0, 1.0)
    figures = tmp_path / "run" / "figures"
    assert (figures / "landscape.png").exists()
    assert (figures / "landscape_surface.svg").exists()
    assert not (tmp_path / "run" / "parts").exists()
    counter = After(model, 0, fail)
    assert vs.diagnose(model, data, **request)["landscape"].nll.value[0, 0] == found.nll.value[0, 0]
    assert counter.count < 10  # none of the 441 points


def test_what_makes_no_landscape_is_refused() -> None:
    for options, message in (
        ({"points": 1}, "points is 1; expected a whole number from 2"),
        ({"span": 0.0}, "span is 0.0; expected a number, more than 0"),
        ({"directions": "up"}, "directions is 'up'; expected one of random, pca, hessian"),
        ({"directions": "pca"}, "a plane needs two other models"),
        (
            {"memory_format": "fast"},
            "memory_format is 'fast'; expected one of auto, contiguous, channels_last",
        ),
        ({"limit": 0}, "limit is 0"),
    ):
        with pytest.raises(VitscopeError, match=message):
            landscape(linear(), images(), recipe=None, **options)


def test_two_processes_give_the_same_numbers(tmp_path: Path) -> None:
    done = run(Path(__file__).parents[1] / "landscape_job.py", tmp_path, processes=2)
    assert done.returncode == 0, done.stderr
    two = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert two[0] == two[1] == numbers()
    names = [f"{x!r} {y!r} of 12" for x in (-1.0, -0.5, 0.0, 0.5, 1.0) for y in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    assert len(PartialResults(tmp_path, "landscape", "key").finished(names)) == 25  # of both processes
    assert numbers(tmp_path) == numbers()  # one goes on with what two have finished
