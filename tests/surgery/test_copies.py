"""Operated models are copied, pickled and sent to other processes, and the copies are models of their own."""

import copy
import pickle
from collections.abc import Iterator
from itertools import combinations
from multiprocessing.context import BaseContext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.processes import READY
from tests.surgery.checks import assert_equal, outputs
from vitscope.anatomy.watch.one_forward import main_output
from vitscope.surgery.mc_dropout import dropouts

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
CNN: dict[str, list[str]] = {
    "alternate": ["alternate budget=2"],
    "ensemble": ["mc_dropout", "ensemble 2"],
    "lesion": ["lesion stages.1.blocks.1"],
    "mc_dropout": ["mc_dropout"],
    "smooth": ["smooth"],
    "temporal": ["temporal"],
}
VIT: dict[str, list[str]] = {
    "broadcast_context": ["broadcast_context kind=cb_s"],
    "ensemble": ["mc_dropout", "ensemble 2"],
    "extend": ["extend msa"],
    "lesion": ["lesion blocks.1.attn"],
    "localize": ["localize 3"],
    "mc_dropout": ["mc_dropout"],
    "pool_tokens": ["pool_tokens class_token=drop"],
    "smooth": ["pool_tokens", "smooth stage_ends"],
    "squeeze_excite": ["squeeze_excite"],
    "temporal": ["temporal"],
    "uniform_heads A": ["uniform_heads A"],
    "uniform_heads C": ["uniform_heads C"],
}
LAST = ("mc_dropout", "ensemble", "temporal")  # in this order after all others
WAYS = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}


def _place(word: str) -> int:
    """Where an operation stands among others: what wants attention that nothing was done to comes first."""
    return (
        LAST.index(word) if word in LAST else -2 if word.startswith(("uniform_heads", "pool_tokens")) else -1
    )


def cases() -> Iterator[Any]:
    """Every operation by itself, and every two of them."""
    for name, operations in (("preresnet_mini", CNN), ("vit_mini", VIT)):
        chosen = [(one,) for one in operations]
        chosen += [pair for pair in combinations(operations, 2) if not {*pair} >= {"ensemble", "mc_dropout"}]
        for words in chosen:
            ordered = sorted(words, key=_place)
            said = dict.fromkeys(text for word in ordered for text in operations[word])
            slow = [pytest.mark.slow] if len(words) > 1 else []
            yield pytest.param(name, tuple(said), id=f"{name}, {' + '.join(said)}", marks=slow)


def operated(name: str, said: tuple[str, ...]) -> nn.Module:
    torch.manual_seed(0)
    vit = {"class_token": True, "global_pool": "token", "depth": 2}
    cnn = {"blocks": (1, 2, 1, 2), "channels": (8, 16, 16, 32), "stem_channels": 8}
    settings = vit if name == "vit_mini" else cnn
    model = vs.create_model(name, **settings)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.1)
    return vs.operate(model, *said).model


def in_training(model: nn.Module) -> Tensor:
    torch.manual_seed(1)
    return main_output(model.train()(IMAGES))[0].detach()


def fresh(model: nn.Module) -> nn.Module:
    return vs.surgery.reset(model) if "temporal" in str(vs.surgery.record(model)) else model


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "said"), cases())
def test_a_copy_says_the_same_and_is_a_model_of_its_own(name: str, said: tuple[str, ...], way: str) -> None:
    model = operated(name, said)
    again = WAYS[way](model)
    assert vs.surgery.record(again) == vs.surgery.record(model)
    theirs = {id(t) for t in (*model.modules(), *model.parameters(), *model.buffers())}
    assert not theirs & {id(t) for t in (*again.modules(), *again.parameters(), *again.buffers())}
    assert [type(m) for m in again.modules()] == [type(m) for m in model.modules()]
    wanted = outputs(fresh(model), IMAGES)
    assert_equal(outputs(fresh(again), IMAGES), wanted)
    assert torch.equal(in_training(copy.deepcopy(again)), in_training(copy.deepcopy(model)))
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.mul_(1.01)
    for dropout in dropouts(again):
        dropout.p = 0.9
    outputs(fresh(again), IMAGES)
    assert_equal(outputs(fresh(model), IMAGES), wanted)
    _is_undone(again)
    assert_equal(outputs(fresh(model), IMAGES), wanted)


def _is_undone(model: nn.Module) -> None:
    """It can be operated on again, and what can be undone is."""
    while "ensemble" in [entry["operation"] for entry in vs.surgery.record(model)]:
        vs.surgery.undo(model)  # as it is, its units run several times in a pass
    before = outputs(fresh(model), IMAGES)
    unit = [unit for unit in vs.anatomy(model) if unit.removable][-1]
    vs.surgery.lesion(model, unit)
    vs.surgery.undo(model)
    assert_equal(outputs(fresh(model), IMAGES), before)
    while vs.surgery.record(model) and vs.surgery.record(model)[-1].get("grafts"):
        vs.surgery.undo(model)
    assert not any(m.__class__.__name__.startswith("Grafted") for m in model.modules()) or vs.surgery.record(
        model
    )
    outputs(model, IMAGES)


def _send(model: nn.Module, queue: Any) -> None:
    queue.put(outputs(fresh(model), IMAGES)[0].numpy())


@pytest.mark.parametrize(
    "context",
    [READY, pytest.param(torch.multiprocessing.get_context("spawn"), marks=pytest.mark.slow)],
    ids=["ready", "new interpreter"],
)
def test_it_is_sent_to_another_process(context: BaseContext) -> None:
    model = operated("vit_mini", ("localize 3", "mc_dropout", "ensemble 2", "temporal"))
    queue = context.Queue()
    process = context.Process(target=_send, args=(model, queue))
    process.start()
    said = queue.get(timeout=900)
    process.join(900)
    assert process.exitcode == 0
    torch.testing.assert_close(torch.from_numpy(said), outputs(fresh(model), IMAGES)[0])


def test_a_thread_that_copies_while_the_model_runs_gets_one_that_does_not() -> None:
    model = operated("vit_mini", ("localize 3",))
    copies: list[nn.Module] = []
    handle = model.blocks[0].attn.q_norm.register_forward_hook(lambda *_: copies.append(copy.deepcopy(model)))
    said = outputs(model, IMAGES)
    handle.remove()
    copies[0].blocks[0].attn.q_norm._forward_hooks.clear()
    assert not any(getattr(m, "vitscope_running", None) for m in copies[0].modules())
    assert_equal(outputs(copies[0], IMAGES), said)
