"""What a model is trained for: targets, loss, score. Everything else of a training is the same for all of them."""

from vitscope.tasks.classification import Classification
from vitscope.tasks.find import find_task, task_of
from vitscope.tasks.segmentation import Segmentation
from vitscope.tasks.task import Task

__all__ = ["Classification", "Segmentation", "Task", "find_task", "task_of"]
