"""One image file as 8-bit grey or RGB, or which file is broken; images and labels of what a Dataset or DataLoader
gives, by place or by name."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData, VitscopeError
from vitscope.results.atomic import is_special

# Everything that a picture may be stored as and that needs more than `convert("RGB")`.
_IN_WORDS = (
    OSError,
    SyntaxError,
    Image.DecompressionBombError,
)  # what PIL says of a file; others speak of Python
MEND = (
    "replace it or delete it, or pass over such files: skip_broken=True (diagnose, evaluate, compare, train, "
    "survey; in a study's file skip_broken: true)"
)
_DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")


def open_image(file: str | Path | BinaryIO, name: str | None = None) -> Image.Image:
    """Decode a picture completely; the result has mode L or RGB."""
    with decoding(str(file) if name is None else name), opened(file) as picture:
        picture.load()
        return to_8bit(picture)


def opened(file: str | Path | BinaryIO) -> Image.Image:
    """A picture of which the header is read; nobody is waited for who might write into a pipe."""
    if isinstance(file, str | Path) and is_special(Path(file)):
        raise OSError("it is no plain file")
    # Tags of a TIFF that are damaged, very large pictures: what can be decoded is right, and of what cannot be we speak
    # ourselves. Set anew each time, as others may have reset it, and not taken back, as several threads decode at once.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.TiffImagePlugin")
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    return Image.open(file)


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn what PIL raises for a broken picture into an error that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadData(f"{name} does not exist (any more); load the data again") from error
    except VitscopeError:
        raise
    except (
        Exception
    ) as error:  # decoders of damaged files raise whatever comes their way: struct.error, IndexError ...
        said = reason(error) if isinstance(error, _IN_WORDS) else "its content is damaged"
        raise BadData(f"cannot decode {name} ({said}); {MEND}") from error


def to_8bit(picture: Image.Image) -> Image.Image:
    """Any PIL mode as L or RGB: deep grey is scaled to 8 bits, transparency is laid over white."""
    if picture.mode in ("L", "RGB"):
        return picture
    if picture.mode == "1":
        return picture.convert("L")
    if picture.mode in _DEEP_MODES:
        return _from_deep_grey(picture)
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        white = Image.new("RGBA", layered.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layered).convert("RGB")
    return picture.convert("RGB")


def _from_deep_grey(picture: Image.Image) -> Image.Image:
    """16-bit values are divided by 257 (65535 becomes 255); values that fit into 8 bits stay as they are."""
    values = np.asarray(picture).astype(np.float64)
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 65535:
        raise OSError(f"mode {picture.mode} with values outside 0 .. 65535")
    if picture.mode == "F" and values.max() <= 1.0:
        values = values * 255.0
    elif picture.mode.startswith("I;16") or values.max() > 255:
        values = values / 257.0
    return Image.fromarray(np.round(values).astype(np.uint8))


IMAGES = ("image", "images", "pixel_values", "img", "x")
LABELS = ("label", "labels", "target", "targets", "y")


def images_and_labels(item: Any, what: str) -> tuple[Any, Any]:
    """The first two things of a tuple, or what a dict calls so: one image with its label, or a batch of them."""
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
