"""How good a model is on held-out images, as a training shows it after every epoch.

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
from vitscope.data import DataConfig, data_config
from vitscope.tasks import Classification, Task
from vitscope.tasks.task import Inputs, Measuring, Prepared
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
    """Accuracy and loss on labelled images; see `measure`."""
    found = measure(model, Classification(), data, config, batch_size, device, interrupt)
    return Score(found["accuracy"], found["low"], found["high"], found["nll"], int(found["n"]))


def measure(
    model: nn.Module,
    task: Task,
    data: Any,
    config: DataConfig | None = None,
    batch_size: int | None = None,
    device: torch.device | None = None,
    interrupt: Interruptible | None = None,
) -> dict[str, float]:
    """Go through the data once in evaluation mode; the model's mode is as before afterwards.

    Under torchrun every process must call this with the same weights, and all get the same scores.

    Raises:
        Stopped: A process was asked to, by its `interrupt`; the others are told when they are done with their batch.
    """
    rank, world = distributed.rank(), distributed.world_size()
    config = config or data_config(model)
    own = task.prepared(data, model, Measuring(config, device, rank, world, batch_size))
    blank = task.blank(config, device)
    training = model.training
    model.eval()
    try:
        with torch.inference_mode(not is_sharded(model)), torch.no_grad():
            sums = _batch_by_batch(model, task, own, blank, interrupt or Interruptible())
    finally:
        model.train(training)
    everyone = distributed.gather(sums)
    return task.scores(everyone[i % world][i // world] for i in range(sum(map(len, everyone))))


def _batch_by_batch(
    model: nn.Module, task: Task, own: Prepared, blank: Inputs, interrupt: Interruptible
) -> list[Any]:
    """The sums of this process's batches; all processes take as many turns, and stop after the same one."""
    found = []
    mine = iter(own)
    for turn in range(max(distributed.gather(len(own)))):
        if is_sharded(model) and turn >= len(own):
            model(blank)  # it works only where all take part
        elif turn < len(own):
            # a pass of a sharded model cannot be given up by one process alone
            with suppress(Stopped), nullcontext() if is_sharded(model) else interrupt.at_once():
                inputs, targets, *_ = next(mine)
                found.append(task.sums(model, inputs, targets))
        if asked := any_process(interrupt.asked):
            raise Stopped(asked)
    return found
