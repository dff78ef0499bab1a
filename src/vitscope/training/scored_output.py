"""Which of a model's outputs is trained: what is said, else what the data decides, and it is kept with the model.

A model that returns several outputs may be told from the data alone: there are four classes, and one output has four
numbers. The run folder then says which it was, so that the trained model can be shown images of no known classes.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy.taps.preserve import preserved
from vitscope.core.interface import declare, declared, shown_classes
from vitscope.core.outputs import NoClassScores, Place, UndecidedOutput, place_of_scores
from vitscope.core.tensors import dtype_of
from vitscope.data import DataConfig


@contextmanager
def settled_output(
    model: nn.Module, said: Place | None, classes: int | None, config: DataConfig
) -> Iterator[None]:
    """Inside, the model is run once on one image; afterwards it says which output is trained, if it has to be said.

    Args:
        model: Is told, unless it is refused.
        said: Which output it is, as the user says.
        classes: How many the data has, if known.
        config: Of its images.
    """
    returned: list[Any] = []
    hook = model.register_forward_hook(lambda module, given, output: returned.append(output))
    try:
        # declared, and not asked for: a model that returns one tensor here may return more in training
        with declared(model):
            declare(model, output=said)
            with shown_classes(model, classes):
                yield
            hook.remove()
            for output in returned[:1]:
                _refuse_without_effect(model, said, output, config)
                said = _decided_by_data(model, output, classes) if said is None else said
    finally:
        hook.remove()
    declare(model, output=said)


def _decided_by_data(model: nn.Module, output: Any, classes: int | None) -> Place | None:
    """Where the scores are, if without the data they were somewhere else or nowhere."""
    with shown_classes(model, classes):
        place = _place(model, output)
    return None if place == _place(model, output) else place


def _place(model: nn.Module, output: Any) -> Place | None:
    try:
        return place_of_scores(model, output, 1)
    except (NoClassScores, UndecidedOutput):  # a detector has none
        return None


def _refuse_without_effect(model: nn.Module, said: Place | None, output: Any, config: DataConfig) -> None:
    """Refuse to choose among the outputs of a model that returns one tensor, in training as well."""
    if said is None:
        return
    if isinstance(output, Tensor):
        training = copy.deepcopy(model)
        with preserved(training), torch.no_grad():
            training.train()
            images = torch.zeros(2, *config.input_size, device=output.device, dtype=dtype_of(model))
            several = training(images)
        if not isinstance(several, Tensor):
            place_of_scores(training, several, 2, said)
            return
    with declared(model, output=said):
        place_of_scores(model, output, 1)
