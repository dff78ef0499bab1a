"""Train a model on a part of the training images and score it on the rest, image by image.

What a search chooses by must not be what its result is judged by in the end: the test split is not touched.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vitscope.anatomy.taps.preserve import preserved
from vitscope.core.errors import BadData
from vitscope.core.outputs import class_scores
from vitscope.data import batches, load_data
from vitscope.training import checkpoint
from vitscope.training.loop import train


def train_and_score(
    model: nn.Module,
    out: str | os.PathLike[str],
    seed: int = 0,
    *,
    data: str,
    recipe: str = "mini",
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    fraction: float = 1.0,
    validation: float = 0.2,
    device: str | None = None,
    loaders: int = 0,
) -> list[int]:
    """Train `model` in place, or go on with it, and tell for each validation image whether it is right.

    Args:
        model: With a head for the classes of the data.
        out: The run folder.
        seed: Decides which images are for validation, the order of the others, every augmentation.
        data: A spec such as "fashion", of whose training split both parts are taken.
        recipe: A name of `RECIPES`.
        epochs: Instead of the recipe's.
        batch_size: Instead of the recipe's.
        lr: Instead of the recipe's.
        fraction: Class-stratified part of the training split to use at all.
        validation: Class-stratified share of that to score on.
        device: Default: CUDA if there is any, else the CPU.
        loaders: Processes that load and augment images.

    Returns:
        1 for every validation image that is classified right, else 0, in the order of the data.
    """
    learned, scored = split(load_data(data, split="train", fraction=fraction, seed=seed), validation, seed)
    train(
        model,
        learned,
        recipe,
        out,
        held_out=scored,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        resume=checkpoint.exists(Path(out)),
        seed=seed,
        device=device,
        workers=loaders,
        progress=False,
    )
    return correctness(model, scored)


def split(data: Any, share: float, seed: int = 0) -> tuple[Any, Any]:
    """The images without a seeded share of them, and that share: of every class, or of a task's pictures."""
    if not 0 < share < 1:
        raise BadData(f"validation is {share}; expected a share between 0 and 1, such as 0.2")
    learned, held_out = data.hold_out(share, seed)
    return learned, held_out


def correctness(model: nn.Module, data: Any) -> list[int]:
    """1 for every image whose class the model says, in the order of the data; the model's mode is as before."""
    device = next(model.parameters()).device
    right = np.zeros(len(data), dtype=np.int64)
    with preserved(model), torch.inference_mode():
        for images, labels, indices in batches(data, model, batch_size=250, device=device):
            output = model(images.contiguous(memory_format=torch.channels_last))
            logits = class_scores(model, output, len(images))
            right[indices.cpu().numpy()] = (logits.argmax(1) == labels).cpu().numpy()
    return right.tolist()
