"""Image files that cannot be decoded: which they are, and the data without them."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from vitscope.core import distributed
from vitscope.core.errors import BadData
from vitscope.core.progress import size
from vitscope.data.frames import FrameData
from vitscope.data.images import ImageData
from vitscope.data.task_data import TaskData

_SOON = 2.0  # seconds without a bar


def without_broken(data: Any) -> tuple[Any, list[str]]:
    """The images that can be decoded, and the names of the others; reads each once, shared out over processes."""
    if isinstance(data, ImageData) and data.images is not None:
        return data, []
    own = distributed.shard(len(data))
    shown = tqdm(own, f"reading {data.spec} ({data.split})", leave=False, disable=None, delay=_SOON, **size())
    broken = sorted(
        index for part in distributed.gather([i for i in shown if _is_broken(data, i)]) for index in part
    )
    if not broken:
        return data, []
    names = [data.name(index) for index in broken]
    if len(broken) == len(data):
        raise BadData(f"none of the {len(data)} images can be read; the first is {names[0]}; give other data")
    return data.subset(np.setdiff1d(np.arange(len(data)), broken)), names


def passed_over(data: ImageData | TaskData) -> Any:
    """The data without broken images, which are named on stderr."""
    if isinstance(data, FrameData):
        raise BadData(f"{data.spec} is a stream, in which no frame can be left out; replace broken ones")
    good, names = without_broken(data)
    if names and distributed.is_main():
        print(
            f"vitscope: {len(names)} of {len(data)} images are broken and passed over: {few(names)}",
            file=sys.stderr,
        )
    return good


def few(names: Sequence[str], most: int = 5) -> str:
    """The names in one line; of more than `most` the first ones, and how many others there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _is_broken(data: ImageData | TaskData, index: int) -> bool:
    try:
        data[index]
    except BadData:
        return True
    return False
