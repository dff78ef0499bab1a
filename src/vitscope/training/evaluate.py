"""Accuracy and loss on held-out images, as a training shows them after every epoch."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope.data import DataConfig, batches


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
    """Go through the data once in evaluation mode; the model's mode is as before afterwards."""
    training = model.training
    correct, loss, n = 0, 0.0, 0
    model.eval()
    try:
        with torch.inference_mode():
            for images, labels, _ in batches(data, model, config, batch_size=batch_size, device=device):
                logits = model(images.contiguous(memory_format=torch.channels_last)).float()
                loss += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
                correct += int((logits.argmax(1) == labels).sum())
                n += len(labels)
    finally:
        model.train(training)
    return Score(correct / n, *wilson(correct, n), loss / n, n)


def wilson(successes: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))  # against rounding
