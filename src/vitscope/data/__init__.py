"""Images: by name, as batches, as a model wants them. What needs torch is loaded on first use."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitscope.core.interface import class_count as class_count
    from vitscope.data.batching import Batches as Batches
    from vitscope.data.batching import batches as batches
    from vitscope.data.catalog import CATALOG as CATALOG
    from vitscope.data.config import DataConfig as DataConfig
    from vitscope.data.config import data_config as data_config
    from vitscope.data.frames import FrameData as FrameData
    from vitscope.data.frames import moving_crops as moving_crops
    from vitscope.data.images import ImageData as ImageData
    from vitscope.data.images import check_labels as check_labels
    from vitscope.data.labels import Readout as Readout
    from vitscope.data.labels import readout as readout
    from vitscope.data.labels import relabel as relabel
    from vitscope.data.preprocessing import preprocess as preprocess
    from vitscope.data.sources import load_data as load_data
    from vitscope.data.task_data import NO_CLASS as NO_CLASS
    from vitscope.data.task_data import Objects as Objects
    from vitscope.data.task_data import TaskData as TaskData
    from vitscope.data.tasks.frames import as_frames as as_frames

_WHERE = {
    "Batches": "batching",
    "CATALOG": "catalog",
    "DataConfig": "config",
    "FrameData": "frames",
    "ImageData": "images",
    "NO_CLASS": "task_data",
    "Objects": "task_data",
    "Readout": "labels",
    "TaskData": "task_data",
    "as_frames": "tasks.frames",
    "batches": "batching",
    "check_labels": "images",
    "data_config": "config",
    "load_data": "sources",
    "moving_crops": "frames",
    "preprocess": "preprocessing",
    "readout": "labels",
    "relabel": "labels",
}
__all__ = [*_WHERE, "class_count"]


def __getattr__(name: str) -> Any:
    if name == "class_count":
        return importlib.import_module("vitscope.core.interface").class_count
    if name not in _WHERE:
        raise AttributeError(f"module 'vitscope.data' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
