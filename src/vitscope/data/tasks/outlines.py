"""Outlines of objects in COCO's forms: polygons, run lengths, and run lengths packed into text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vitscope.core.arguments.kinds import shown
from vitscope.core.errors import VitscopeError
from vitscope.data.images import Pixels
from vitscope.data.tasks.json_files import are_numbers

_MOST_BITS = 60  # of a length; no picture has more pixels


def wrong_outline(shape: Any, width: int, height: int) -> str | None:
    """Why an outline cannot be used, in words; None if it can."""
    if isinstance(shape, list) and shape:
        for polygon in shape:
            if not are_numbers(polygon) or len(polygon) % 2 or len(polygon) < 6:
                seen = f"{len(polygon)} numbers" if isinstance(polygon, list) else shown(polygon)
                return f"has a polygon of {seen}, expected x and y of at least three points"
            for values, side in ((polygon[::2], width), (polygon[1::2], height)):
                if (
                    min(values) < -side or max(values) > 2 * side
                ):  # pycocotools goes along every pixel of an edge
                    far = max(values, key=lambda value: abs(value))
                    return (
                        f"has a polygon with a point at {far:g}, far out of its picture of {width}x{height}"
                    )
        return None
    if isinstance(shape, dict):
        if shape.get("size") != [height, width]:
            return (
                f"has run lengths for {shown(shape.get('size'))}, expected the picture's [{height}, {width}]"
            )
        counts = shape.get("counts")
        runs: Any = run_lengths(counts) if isinstance(counts, str) else counts
        whole = isinstance(runs, list) and all(type(run) is int for run in runs)
        if whole and min(runs, default=0) >= 0 and sum(runs) == width * height:
            return None
        return "has run lengths that do not add up to its picture"  # pycocotools would write beyond it
    return "has no outline, and others have"


def run_lengths(packed: str) -> list[int]:
    """The lengths in a packed text; from the fourth on, each is stored as what it has more than the second before it.

    A character holds five bits of a number, the lowest first, after 48 is taken away; its sixth says that more follow.
    """
    lengths: list[int] = []
    number = shift = 0
    for character in packed:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            return []
        number |= (bits & 31) << shift
        shift += 5
        if shift > _MOST_BITS:
            return []
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift  # it is negative
        lengths.append(number + (lengths[-2] if len(lengths) > 2 else 0))
        number = shift = 0
    return lengths if shift == 0 else []


def masks_of(shapes: Sequence[Any], size: tuple[int, int]) -> Pixels:
    """(K, H, W): 1 inside; a picture has `size` (width, height)."""
    try:
        from pycocotools import mask as coco_mask
    except ImportError as error:
        raise VitscopeError("outlines are read with pycocotools; type: pip install pycocotools") from error
    width, height = size
    masks = np.zeros((len(shapes), height, width), np.uint8)
    for mask, shape in zip(masks, shapes, strict=True):
        packed = isinstance(shape, dict) and isinstance(shape["counts"], str)
        runs = shape if packed else coco_mask.frPyObjects(shape, height, width)
        mask[:] = coco_mask.decode(coco_mask.merge(runs) if isinstance(runs, list) else runs)
    return masks
