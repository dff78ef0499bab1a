"""The robustness exams of one model as numbers; run by `test_resumable_pass.py`, and with torchrun in two processes."""

import json
import sys
from pathlib import Path

import torch

from tests.exams.factories import small_transformer
from vitscope.core import distributed
from vitscope.data import load_data
from vitscope.exams import adversarial, frequency_noise, occlusion, shape_bias
from vitscope.results.codec import encode

EXAMS = {
    "frequency_noise": (frequency_noise, {}),
    "occlusion": (occlusion, {"side": 4, "shares": (0.5,)}),
    "adversarial": (adversarial, {"strengths": (4, 8), "steps": 2}),
    "shape_bias": (shape_bias, {"cutoffs": (0.2, 0.3)}),
}


def transformer() -> torch.nn.Module:
    """Of one block; its classes are spread, so that some of its answers are right."""
    model = small_transformer()
    model.head.weight.data.normal_(std=0.5, generator=torch.Generator().manual_seed(1))
    return model


def numbers() -> dict[str, object]:
    data = load_data("fashion", split="test")
    return {
        name: encode(exam(transformer(), data, limit=40, batch_size=16, name="t", **options))
        for name, (exam, options) in EXAMS.items()
    }


if __name__ == "__main__":
    with distributed.process_group():
        Path(sys.argv[1], f"{distributed.rank()}.json").write_text(json.dumps(numbers()))
