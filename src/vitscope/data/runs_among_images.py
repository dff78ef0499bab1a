"""Runs in a folder of images: their figures are no images, and none is to be written there."""

import os
from pathlib import Path
from typing import Any

from vitscope.core.errors import BadArgument
from vitscope.results.run import FILE

_OWN = ("exams", "figures")  # folders of a run
IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".ppm", ".pgm", ".pbm", ".bmp", ".tif", ".tiff", ".webp", ".gif")
)
_WALKED = ("folder", "frames")  # whose images are whatever pictures lie below


def is_image(name: str) -> bool:
    """Whether a file of this name is taken for an image."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES and not name.startswith(".")


def folders_of_images(folders: list[str], files: list[str]) -> list[str]:
    """Of the folders in a folder those that may hold images: neither hidden nor a run's own."""
    own = _OWN if FILE in files else ()
    return [name for name in folders if not name.startswith(".") and name not in own]


def is_of_runs(folder: str | os.PathLike[str]) -> bool:
    """Whether runs lie below and no images do but theirs, as in `runs`: it is no class."""
    if any(is_image(entry.name) for entry in os.scandir(folder)):
        return False
    found = False
    for _, folders, files in os.walk(folder):
        if any(map(is_image, files)):
            return False
        found = found or FILE in files
        folders[:] = folders_of_images(folders, files)
    return found


def refuse_among_images(out: str | os.PathLike[str], *data: Any) -> None:
    """Refuse to write a run into a folder whose pictures are the data; `data` is what `load_data` takes or gives."""
    place = Path(os.path.realpath(out))
    for one in data:
        spec = one if isinstance(one, str) else str(getattr(one, "spec", ""))
        kind, _, path = spec.partition(":")
        images = Path(os.path.realpath(os.path.expanduser(path)))
        if kind in _WALKED and path and (images == place or images in place.parents):
            raise BadArgument(
                f"{out} lies in {spec}, where figures would be taken for images; give a folder elsewhere, such as "
                f"--out {images.parent / 'runs' / images.name} (and move there what is in this one, if anything is)"
            )
