"""One pass over the data for any number of exams: the maps are tapped once and handed to all of them."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from vitscope import distributed
from vitscope.anatomy import Anatomy, Tap, Unit, anatomy, preserved
from vitscope.data import Batches, batches, class_count, data_config
from vitscope.errors import VitscopeError
from vitscope.exams.base import Accumulator, Batch, Subject
from vitscope.exams.identity import data_name, model_name
from vitscope.results import Result, UnitRow

CHUNK = 1 << 20  # numbers of a map measured at once on a CPU: few enough to stay in its cache


def examine(
    model: nn.Module,
    data: Any,
    exams: Sequence[type[Accumulator]],
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
) -> dict[str, Result]:
    """Run `exams` in one pass and return their results by exam name.

    The model is in evaluation mode inside and left as it was found. Under torchrun each process takes its share
    of the batches and all return the same results.

    Args:
        model: Any vision model that anatomy understands.
        data: What `load_data` gives, a Dataset, a DataLoader, or a pair of tensors (images, labels).
        exams: Accumulator types.
        limit: Use a seeded, class-stratified subset of this many images.
        batch_size: Images per forward pass.
        seed: Of the subset, the order and the bootstrap.
        device: Where to run; default: where the model is.
        name: What to call the model in the results.
    """
    with preserved(model), _on_device(model, device) as place, torch.inference_mode():
        torch.manual_seed(seed)
        stream = _stream(model, data, exams, limit, batch_size, seed, place)
        example = next(iter(stream if len(stream) else _whole(stream, model, data, limit, batch_size, seed, place)))
        with_maps = any(exam.measure is not None for exam in exams)
        parts = anatomy(model, tuple(example[0].shape[1:])) if with_maps else None
        rows = tuple(UnitRow.of(unit) for unit in parts.mapped) if parts is not None else ()
        subject = Subject(name or model_name(model), data_name(data), rows, seed)
        accumulators = [exam(subject) for exam in exams]
        _run(model, parts, stream, accumulators)
        return {a.result.exam: _compute(a) for a in accumulators}
