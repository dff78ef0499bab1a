"""Which task a model, or data, is for."""

from typing import Any

from torch import nn

from vitscope.core.errors import BadArgument, BadData, did_you_mean
from vitscope.core.interface import unwrap
from vitscope.models import name_of
from vitscope.tasks.classification import Classification
from vitscope.tasks.detection import Detection
from vitscope.tasks.segmentation import Segmentation
from vitscope.tasks.task import Task
from vitscope.tasks.vqa import VQA

TASKS: dict[str, type[Task]] = {task.name: task for task in (Classification, Segmentation, Detection, VQA)}


def find_task(name: str | None, data: Any, window: float | None = None) -> Task:
    """The task of this name, which the data has to fit; None: the one that the data is for.

    `window` is that of `Segmentation`, and of no other.
    """
    told = getattr(data, "task", Classification.name)
    if name is not None and name not in TASKS:
        raise BadArgument(f"task is '{name}'; {did_you_mean(name, TASKS)}")
    if name is not None and name != told:
        raise BadArgument(
            f"task is '{name}', and {getattr(data, 'spec', 'the data')} is for {told}; leave --task out, or give other "
            "--data (see: vitscope data list)"
        )
    if window is None:
        return TASKS[told]()
    if told != Segmentation.name:
        raise BadArgument(
            f"window is {window:g}, and the data is for {told}; it is for segmentation, leave it out"
        )
    return Segmentation(window)


def fitting_task(model: nn.Module, data: Any) -> Task:
    """The task that the data is for, and the model too: labels of whole images, masks, objects, or questions."""
    task, made = find_task(None, data), getattr(unwrap(model), "vitscope_task", None)
    if made is not None and made != task.name:
        raise BadData(
            f"{name_of(model)} is a model of {made}, and {getattr(data, 'spec', 'the data')} is data of {task.name}; "
            f"give data of {made} (see: vitscope data list), or a model of {task.name}"
        )
    task.bind(model)
    return task


def task_of(model: nn.Module) -> Task:
    """What a model is made for; classification, if it does not say."""
    return TASKS[getattr(unwrap(model), "vitscope_task", Classification.name)]()
