"""Runs in a folder of images: their figures are no images."""

import os

from vitscope.results.run import FILE

_OWN = ("exams", "figures")  # folders of a run
IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".ppm", ".pgm", ".pbm", ".bmp", ".tif", ".tiff", ".webp", ".gif")
)


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
