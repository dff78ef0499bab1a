"""Accuracy and loss on held-out images, as a training shows them after every epoch.

Batches are shared among processes without a repetition, and do not depend on how many there are; their sums are
added up in the order of the batches. So any number of processes finds the same digits.
"""

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope.core import distributed
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.core.outputs import class_scores
from vitscope.core.statistics import share_interval
from vitscope.data import DataConfig, batches, data_config
from vitscope.data.batching import Batches
from vitscope.training.parallel import any_process, is_sharded


@dataclass(frozen=True)
class Score:
    """Accuracy with its 95 % interval, and mean negative log-likelihood, over `n` images."""

    accuracy: float
    low: float
    high: float
    nll: float
    n: int


def evaluate(
    model: nn.Module,
    data: Any,
    config: DataConfig | None = None,
    batch_size: int = 250,
    device: torch.device | None = None,
    interrupt: Interruptible | None = None,
) -> Score:
    """Go through the data once in evaluation mode; the model's mode is as before afterwards.

    Under torchrun every process must call this with the same weights, and all get the same score.

    Raises:
        Stopped: A process was asked to, by its `interrupt`; the others are told when they are done with their batch.
    """
    rank, world = distributed.rank(), distributed.world_size()
    own = batches(data, model, config, batch_size=batch_size, device=device, rank=rank, world=world)
    training = model.training
    model.eval()
    try:
        with torch.inference_mode(not is_sharded(model)), torch.no_grad():
            sums = _batch_by_batch(
                model, own, config or data_config(model), device, interrupt or Interruptible()
            )
    finally:
        model.train(training)
    everyone = distributed.gather(sums)
    ordered = [everyone[i % world][i // world] for i in range(sum(map(len, everyone)))]
    correct, loss, n = (sum(values) for values in zip(*ordered, strict=True))
    low, high = share_interval(correct, n)
    return Score(correct / n, float(low), float(high), loss / n, n)


def _batch_by_batch(
    model: nn.Module,
    own: Batches,
    config: DataConfig,
    device: torch.device | None,
    interrupt: Interruptible,
) -> list[tuple[int, float, int]]:
    """The sums of this process's batches; all processes take as many turns, and stop after the same one."""
    found = []
    mine = iter(own)
    for turn in range(max(distributed.gather(len(own)))):
        if is_sharded(model) and turn >= len(own):
            model(torch.zeros(1, *config.input_size, device=device))  # it works only where all take part
        elif turn < len(own):
            # a pass of a sharded model cannot be given up by one process alone
            with suppress(Stopped), nullcontext() if is_sharded(model) else interrupt.at_once():
                images, labels, _ = next(mine)
                found.append(_sums(model, images, labels))
        if any_process(interrupt.asked):
            raise Stopped
    return found


def _sums(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[int, float, int]:
    """Right answers, loss and images of a batch."""
    output = model(images.contiguous(memory_format=torch.channels_last))
    logits = class_scores(model, output, len(images)).float()
    loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
    return int((logits.argmax(1) == labels).sum()), float(loss), len(labels)
