"""Data of tasks in exams: what data and model are for, and what a model is shown besides images.

A model that answers questions is shown pictures with their questions wherever the data has some, so that what an exam
of features finds is what happens while it answers. Everything else is shown images alone.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.core.interface import unwrap
from vitscope.data.task_data import TaskData
from vitscope.models import name_of

Shown = Callable[[Tensor, Tensor], Any]  # from images and their places in the data to what a model is given
_TRIES = {
    "segmentation": ("a class for every pixel", "coral or masks:PATH", "upernet:vit_mini"),
    "detection": ("boxes of objects", "coral-objects or coco:PATH", "maskrcnn:resnet_mini"),
    "vqa": ("questions with answers", "easy-vqa or vqa:PATH", "vilt_mini"),
}
_IN_PYTHON = {
    "segmentation": "; in Python also tensors (images, masks), a Dataset or a DataLoader of them",
    "detection": "; tensors and DataLoaders are taken with labels or masks alone",
    "vqa": "; tensors and DataLoaders are taken with labels or masks alone",
}
_LACKING = {
    "segmentation": ("has a pixel with a class", "mIoU"),
    "detection": ("has an object", "AP"),
    "vqa": ("has an answer that can be chosen", "accuracy"),
}


def task_of_model(model: Any) -> str:
    """What a model says that it is made for; "" if it says nothing."""
    return str(getattr(unwrap(model), "vitscope_task", "")) if isinstance(model, nn.Module) else ""


def is_of(data: Any, task: str) -> bool:
    """Whether data is of this task."""
    return isinstance(data, TaskData) and data.task == task


def require_task(data: Any, model: nn.Module | None, task: str, exam: str) -> None:
    """Refuse data of another task, or a model that was made for another one; pixels are told by the model's outputs."""
    targets, sets, trained = _TRIES[task]
    if not is_of(data, task):
        what = f"data of {data.task}" if isinstance(data, TaskData) else f"no data of {task}"
        raise BadData(
            f"{getattr(data, 'spec', 'the data')} is {what}; {exam} needs {targets}: give --data {sets} "
            f"(see: vitscope data list{_IN_PYTHON[task]})"
        )
    if model is not None and task != "segmentation" and task_of_model(model) != task:
        said = task_of_model(model)
        raise UnsupportedModel(
            f"{name_of(model)} {f'is made for {said}' if said else 'does not say that it is made for ' + task}; {exam} "
            f"needs a model that was trained for {task}, such as {trained}"
        )


def require_said(data: TaskData, places: Iterable[int]) -> None:
    """Refuse pictures of which there is nothing to be found out; looks no further than the first that has something."""
    looked_at = [int(place) for place in places]
    if any(data.says(place) for place in looked_at):
        return
    things = "questions" if data.task == "vqa" else "pictures"
    lacking, score = _LACKING[data.task]
    more = f"raise limit (of {len(data)}), or " if len(looked_at) < len(data) else ""
    raise BadData(
        f"{data.spec} ({data.split}): none of the {len(looked_at)} {things} {lacking}, the first is "
        f"{data.name(looked_at[0])}; expected at least one that does, without which there is no {score}: {more}give "
        "other data"
    )


def shown_by(model: nn.Module, data: Any) -> Shown:
    """What `model` is given of images: with the questions about them where it answers questions and data has some."""
    if not is_of(data, "vqa") or task_of_model(model) != "vqa":
        return lambda images, places: images
    words: Any = getattr(unwrap(model), "vitscope_words", None)
    if words is None:
        raise UnsupportedModel(
            f"{name_of(model)} brings no tokenizer, so questions cannot be put to it; take one that does, or vilt_mini"
        )

    def with_questions(images: Tensor, places: Tensor) -> dict[str, Tensor]:
        asked = words([data.question(place) for place in places.tolist()])
        return {"pixel_values": images, **{name: ids.to(images.device) for name, ids in asked.items()}}

    return with_questions
