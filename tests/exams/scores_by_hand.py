"""What the predictions of a model are worth, written out in float64."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn


def scores(p: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Of probabilities (N, classes)."""
    confidence, right = p.max(1), p.argmax(1) == labels
    bins = np.ceil(confidence * 15 - 1e-12)
    return {
        "accuracy": right.mean(),
        "top5": np.mean([label in np.argsort(one)[-5:] for one, label in zip(p, labels, strict=True)]),
        "nll": -np.log(p[np.arange(len(p)), labels]).mean(),
        "brier": ((p - np.eye(p.shape[1])[labels]) ** 2).sum(1).mean(),
        "confidence": confidence.mean(),
        "ece": sum(abs((confidence - right)[bins == b].sum()) for b in range(16)) / len(p),
    }


def answers(model: nn.Module, pixels: Tensor) -> Tensor:
    """The logits of pictures with pixels from 0 to 1."""
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(-1, 1, 1) for key in ("mean", "std"))  # type: ignore[index]
    dtype = next(model.parameters()).dtype
    found: Tensor = model(((pixels - mean) / std).to(dtype))
    return found


@torch.no_grad()
def under_conditions(
    model: nn.Module, labels: Tensor, pictures: Mapping[str, Tensor], quantities: str = "accuracy nll ece"
) -> dict[tuple[str, str | None], float]:
    """What a table of an exam that shows the same pictures under several conditions should say."""
    found = {}
    for condition, pixels in pictures.items():
        known = scores(answers(model, pixels).double().softmax(1).numpy(), labels.numpy())
        found |= {(quantity, condition): known[quantity] for quantity in quantities.split()}
    return found
