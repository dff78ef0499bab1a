"""Two exams of one model as numbers; run by `test_corruption.py` in its own process, and with torchrun in two."""

import json
import sys
from pathlib import Path

import torch

from tests.exams.factories import small_transformer
from vitscope.core import distributed
from vitscope.data import load_data
from vitscope.exams import corruption, noise
from vitscope.results.codec import encode


def transformer() -> torch.nn.Module:
    """Of one block; its classes are spread, so that some of its answers are right."""
    model = small_transformer()
    model.head.weight.data.normal_(std=0.5, generator=torch.Generator().manual_seed(1))
    return model


def numbers() -> dict[str, object]:
    data, request = load_data("fashion", split="test"), {"limit": 40, "batch_size": 16, "name": "t"}
    corrupted = corruption(
        transformer(), data, types=("shot_noise", "fog", "contrast"), severities=(2, 5), **request
    )
    noisy = noise(transformer(), data, draws=2, **request)
    return {"corruption": encode(corrupted), "noise": encode(noisy)}


if __name__ == "__main__":
    with distributed.process_group():
        Path(sys.argv[1], f"{distributed.rank()}.json").write_text(json.dumps(numbers()))
