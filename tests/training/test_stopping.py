"""A signal ends a training inside whatever it is doing, nothing that was done is lost, and the end is the same."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.processes import run
from tests.stopping import SignalInside
from vitscope.results import Run
from vitscope.training import get_recipe, train
from vitscope.training.monitors import Monitors

RECIPE = replace(get_recipe("mini"), epochs=2, batch_size=8, warmup_epochs=0.5)
STEPS = 3


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """A process that a shell starts in the background ignores Ctrl-C; not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def small(out: Path, model: nn.Module, recipe: Any = RECIPE, **options: Any) -> nn.Module:
    data = vs.load_data("fashion", split="train").subset(list(range(8 * STEPS)))
    options = {"held_out": data, "workers": 0, "progress": False, **options}
    train(model, data, recipe, out, **options)
    return model


def network() -> nn.Module:
    torch.manual_seed(0)
    return vs.create_model("resnet_mini", layers=(1, 1, 1, 1), channels=(8, 16, 16, 32))


def small_vit() -> nn.Module:
    torch.manual_seed(0)
    return vs.create_model("vit_mini", depth=1, embed_dim=24)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nobody stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    small(folder, network())
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return vs.create_model(folder).state_dict()


def assert_same(one: Path, other: Path) -> None:
    for (name, a), b in zip(weights(one).items(), weights(other).values(), strict=True):
        assert torch.equal(a, b), name
    tables = [pd.read_csv(folder / "metrics.csv") for folder in (one, other)]
    for column in ("epoch", "lr", "train_loss", "accuracy", "nll"):
        assert list(tables[0][column]) == list(tables[1][column]), column


def stopped(out: Path, sender: SignalInside, model: nn.Module, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        small(out, model, **options)
    sender.remove()
    assert sender.sent
    assert sender.after == 0  # not one layer more
    assert Run.open(out).state == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("epoch", [1, 2])
def test_while_held_out_images_are_measured(tmp_path: Path, whole: Path, number: int, epoch: int) -> None:
    model = network()
    stopped(tmp_path / "parts", SignalInside(model, epoch, number, least=3), model)
    steps = SignalInside(model := network(), at=-1, training=True, least=3)
    small(tmp_path / "parts", model, resume=True)
    assert steps.passes == STEPS * (2 - epoch)  # the epoch's steps were kept
    assert_same(whole, tmp_path / "parts")


@pytest.mark.parametrize("sam_rho", [None, 0.05])
def test_inside_a_step(tmp_path: Path, sam_rho: float | None) -> None:
    recipe = replace(RECIPE, sam_rho=sam_rho)
    small(tmp_path / "whole", network(), recipe)
    model = network()
    at = (
        2 if sam_rho is None else 4
    )  # of the second step, with SAM in its second pass, where weights stand elsewhere
    stopped(tmp_path / "parts", SignalInside(model, at, least=3, training=True), model, recipe=recipe)
    again = SignalInside(model := network(), at=-1, training=True, least=3)
    small(tmp_path / "parts", model, recipe, resume=True)
    assert again.passes == (2 * STEPS - 1) * (1 if sam_rho is None else 2)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_in_the_first_step_of_all(tmp_path: Path, whole: Path) -> None:
    model = network()
    stopped(tmp_path / "parts", SignalInside(model, 1, least=3, training=True), model)
    small(tmp_path / "parts", network(), resume=True)
    assert_same(whole, tmp_path / "parts")


@pytest.mark.parametrize(("monitor", "make"), [("variance", network), ("hessian", small_vit)])
def test_while_a_monitor_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, monitor: str, make: Callable[[], nn.Module]
) -> None:
    options = {"monitor": [monitor], "monitor_every": 1}
    small(tmp_path / "whole", make(), **options)
    model = make()
    sender = SignalInside(model, at=-1, least=3)
    look = Monitors.look

    def looked_at(monitors: Monitors, epoch: int) -> dict[str, float]:
        if epoch == 1:
            sender.at = sender.passes + 1
        return look(monitors, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(Monitors, "look", looked_at)
        stopped(tmp_path / "parts", sender, model, **options)
    again = SignalInside(model := make(), at=-1, training=True, least=3)
    small(tmp_path / "parts", model, **options, resume=True)
    assert again.passes == STEPS
    assert_same(tmp_path / "whole", tmp_path / "parts")


LOOK = """
import os, signal, sys
import vitscope as vs
from tests.training.test_stopping import network, small
from vitscope.core import distributed
from vitscope.training.monitors import Monitors

tables, looks = Monitors._exam_tables, 0
def looked_at(monitors, model):
    global looks
    looks += 1
    if looks == 2 and distributed.rank() == 1:  # only one process is asked, inside its batch
        def ask(*_):
            hook.remove()
            os.kill(os.getpid(), signal.SIGTERM)
        hook = model.register_forward_pre_hook(ask)
    return tables(monitors, model)
Monitors._exam_tables = looked_at

with distributed.process_group():
    try:
        small(sys.argv[1], network(), monitor=["variance"], monitor_every=1)
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def test_several_processes_complete_a_look_together(tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(LOOK)
    done = run(tmp_path / "look.py", tmp_path / "run", processes=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("stopped") == 2
    assert list(pd.read_csv(tmp_path / "run" / "metrics.csv")["epoch"]) == [1]
    assert set(pd.read_csv(tmp_path / "run" / "monitors.csv")["epoch"]) == {0, 1}
