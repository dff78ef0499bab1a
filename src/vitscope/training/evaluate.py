"""Accuracy and loss on held-out images, as a training shows them after every epoch.

Batches are shared among processes without a repetition, and do not depend on how many there are; their sums are
added up in the order of the batches. So any number of processes finds the same digits.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope import distributed
from vitscope.data import DataConfig, batches, data_config
from vitscope.intervals import share_interval
from vitscope.outputs import class_scores
from vitscope.training.parallel import is_sharded


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
) -> Score:
    """Go through the data once in evaluation mode; the model's mode is as before afterwards.

    Under torchrun every process must call this with the same weights, and all get the same score.
    """
    rank, world = distributed.rank(), distributed.world_size()
    own = batches(data, model, config, batch_size=batch_size, device=device, rank=rank, world=world)
    training = model.training
    model.eval()
    try:
        with torch.inference_mode(not is_sharded(model)), torch.no_grad():
            missing = max(distributed.gather(len(own))) - len(own) if is_sharded(model) else 0
            sums = [_sums(model, images, labels) for images, labels, _ in own]
            if missing:
                _keep_company(model, config or data_config(model), missing, device)
    finally:
        model.train(training)
    everyone = distributed.gather(sums)
    ordered = [everyone[i % world][i // world] for i in range(sum(map(len, everyone)))]
    correct, loss, n = (sum(values) for values in zip(*ordered, strict=True))
    low, high = share_interval(correct, n)
    return Score(correct / n, float(low), float(high), loss / n, n)


def _sums(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[int, float, int]:
    """Right answers, loss and images of a batch."""
    output = model(images.contiguous(memory_format=torch.channels_last))
    logits = class_scores(model, output, len(images)).float()
    loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
    return int((logits.argmax(1) == labels).sum()), float(loss), len(labels)


def _keep_company(model: nn.Module, config: DataConfig, passes: int, device: torch.device | None) -> None:
    """Run the passes that others still need: a sharded model works only where all processes take part."""
    for _ in range(passes):
        model(torch.zeros(1, *config.input_size, device=device))
