"""What a Dataset or a DataLoader gives at a time: its images and its labels, by place or by name."""

from collections.abc import Mapping
from typing import Any

from vitscope.core.errors import BadData

IMAGES = ("image", "images", "pixel_values", "img", "x")
LABELS = ("label", "labels", "target", "targets", "y")


def images_and_labels(item: Any, what: str) -> tuple[Any, Any]:
    """The first two things of a tuple, or what a dict calls so.

    Args:
        item: One image with its label, or a batch of them.
        what: Gives such items, for a message.
    """
    if isinstance(item, tuple | list) and len(item) >= 2:
        return item[0], item[1]
    if isinstance(item, Mapping):
        return _named(item, IMAGES, "image", what), _named(item, LABELS, "label", what)
    raise BadData(f"{what} gives {_described(item)}; expected (image, label), or a dict with these names")


def _named(item: Mapping[Any, Any], names: tuple[str, ...], role: str, what: str) -> Any:
    found = [name for name in names if name in item]
    if len(found) == 1:
        return item[found[0]]
    seen = ", ".join(map(str, item)) or "nothing"
    if found:
        raise BadData(f"{what} gives dicts with {' and '.join(found)}; expected one {role}")
    raise BadData(f"{what} gives dicts with {seen}; expected the {role} under one of: {', '.join(names)}")


def _described(item: Any) -> str:
    shape = getattr(item, "shape", None)
    if shape is not None:
        return f"a {type(item).__name__} of shape {tuple(shape)} without a label"
    if isinstance(item, tuple | list):
        return f"a {type(item).__name__} of {len(item)}"
    return f"a {type(item).__name__}"
