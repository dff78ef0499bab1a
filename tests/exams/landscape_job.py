"""A small landscape as numbers; run by `test_landscape.py` in its own process, and with torchrun in two."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.exams.landscape_cases import convolutional, images, nudged
from tests.exams.task_cases import PixelNet, squares, vilt
from vitscope.core import distributed
from vitscope.engine.resuming import PartialResults
from vitscope.exams.loss.landscape import landscape
from vitscope.exams.loss.landscape_line import landscape_line


def numbers(folder: Path | None = None) -> dict[str, Any]:
    options = {"recipe": None, "batch_size": 6, "memory_format": "contiguous"}
    parts = PartialResults(folder, "landscape", "key" if folder else None)
    surface = landscape(convolutional(), images(), points=5, parts=parts, **options)
    pixels = landscape(
        PixelNet(), squares("segmentation"), points=3, batch_size=4, memory_format="contiguous"
    )
    answers = landscape(vilt(), squares("vqa"), points=2, batch_size=4, memory_format="contiguous")
    line = landscape_line(convolutional(), nudged(convolutional(), 0.3, 1), images(), points=3, **options)
    return {
        "surface": [surface.nll.value.tolist(), surface.rise.low.tolist(), surface.accuracy.value.tolist()],
        "centre": [*surface.centre.nll, *surface.centre.accuracy, surface.centre.l2],
        "tasks": [[one.nll.value.tolist(), one.accuracy.high.tolist()] for one in (pixels, answers)],
        "line": [line.nll.value.tolist(), line.excess.high.tolist(), line.l2.tolist()],
    }


if __name__ == "__main__":
    with distributed.process_group():
        found = numbers(Path(sys.argv[1]))
        Path(sys.argv[1], f"{distributed.rank()}.json").write_text(json.dumps(found))
