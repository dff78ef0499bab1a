"""What a model is trained for: targets, loss, score. Everything else of a training is the same for all of them."""

from vitscope.tasks.classification import Classification
from vitscope.tasks.detection import Detection
from vitscope.tasks.find import find_task, fitting_task, task_of
from vitscope.tasks.segmentation import Segmentation
from vitscope.tasks.task import Task
from vitscope.tasks.vqa import VQA

__all__ = [
    "VQA",
    "Classification",
    "Detection",
    "Segmentation",
    "Task",
    "find_task",
    "fitting_task",
    "task_of",
]
