"""Streams of segmentation as exams of streams take them."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.frames import UNLABELLED, FrameData, MaskFiles
from vitscope.data.images import Pixels
from vitscope.data.task_data import NO_CLASS, TaskData


@dataclass(frozen=True, eq=False)
class _Frames:
    """Pictures of the stream on demand."""

    data: TaskData
    parallel = True

    def read(self, index: int) -> Image.Image:
        """The frame."""
        return self.data.picture(index)

    def name(self, index: int) -> str:
        """Its name."""
        return self.data.name(index)


class _FrameMasks(MaskFiles):
    """Masks of the stream on demand, as `FrameData` keeps them: bytes, and 255 where nobody has said."""

    def __init__(self, data: TaskData) -> None:
        super().__init__(tuple(data.name(i) if data.labelled(i) else None for i in range(len(data))))
        object.__setattr__(self, "data", data)

    def read(self, index: int) -> Pixels | None:
        """The class of every point, (H, W); None if there is no mask."""
        data: TaskData = self.data  # type: ignore[attr-defined]
        if not data.labelled(index):
            return None
        mask = data.target(index)
        return np.where(mask == NO_CLASS, UNLABELLED, mask).astype(np.uint8)

    def digest(self) -> bytes:
        """Of what the stream is made of; masks need not lie in files."""
        data: TaskData = self.data  # type: ignore[attr-defined]
        return data.digest


def as_frames(data: TaskData) -> FrameData:
    """The stream with its masks as `frames:PATH` would give it."""
    if data.streams is None:
        raise BadData(
            f"{data.spec} ({data.split}) is no stream; take one, such as coral-stream or camvid-frames:PATH"
        )
    lengths = [len(stream) for stream in data.streams]
    masks = _FrameMasks(data)
    return FrameData(data.spec, data.split, data.classes, None, lengths, reader=_Frames(data), masks=masks)
