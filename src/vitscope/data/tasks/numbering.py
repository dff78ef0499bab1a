"""Which values of a mask are which classes: numbers, or colours; and the file that names the classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.decode import decoding, opened
from vitscope.data.task_data import NO_CLASS, Mask

CLASSES = "classes.txt"
VOID = 255  # in a mask of numbers: nobody has said what this pixel is
UNKNOWN = -2  # in a table of classes: a value that no mask may have
_MOST_NUMBERS = 1 << 16


@dataclass(frozen=True, eq=False)
class Numbering:
    """Which values of a mask are which classes.

    Attributes:
        table: (values,) the class of each value; `UNKNOWN` where there is none.
        colours: if masks are coloured, red * 65536 + green * 256 + blue of each colour, ascending, as many as values.
        expected: which values there may be, in words.
    """

    table: Mask
    expected: str
    colours: npt.NDArray[np.int64] | None = None

    def classes(self, path: str) -> Mask:
        """The class of every pixel of a mask's file; refuses one that holds something else."""
        with decoding(path), opened(path) as picture:
            picture.load()
            values = self._coloured(picture, path) if self.colours is not None else _numbers(picture, path)
        known = values < len(self.table)
        mask = np.where(known, self.table[np.where(known, values, 0)], UNKNOWN).astype(np.int16)
        if (mask == UNKNOWN).any():
            row, column = np.argwhere(mask == UNKNOWN)[0]
            count = int((mask == UNKNOWN).sum())
            with opened(path) as picture:
                seen = picture.getpixel((int(column), int(row)))
            raise BadData(
                f"{path}: value {seen} in row {row}, column {column} is no class ({count} pixels); "
                f"expected {self.expected}"
            )
        return mask

    def _coloured(self, picture: Image.Image, path: str) -> npt.NDArray[np.int64]:
        """The number of each pixel's colour; one beyond all numbers where it is none of them."""
        assert self.colours is not None
        if picture.mode not in ("RGB", "RGBA", "P"):
            raise BadData(f"the mask {path} has mode {picture.mode}; expected colours: {self.expected}")
        red, green, blue = np.moveaxis(np.asarray(picture.convert("RGB"), dtype=np.int64), -1, 0)
        packed = red << 16 | green << 8 | blue
        places = np.searchsorted(self.colours, packed).clip(max=len(self.colours) - 1)
        return np.where(self.colours[places] == packed, places, len(self.colours))


def by_number(n_classes: int, first: int = 0, void: int = VOID) -> Numbering:
    """Classes are numbered from `first` on; `void` is no class."""
    table = np.full(max(first + n_classes, void + 1), UNKNOWN, np.int16)
    table[void] = NO_CLASS
    table[first : first + n_classes] = np.arange(n_classes)
    empty = f", or {void} for no class" if not first <= void < first + n_classes else ""
    return Numbering(table, f"{first} to {first + n_classes - 1}{empty}")


def by_colour(classes: Mapping[tuple[int, int, int], int], where: str) -> Numbering:
    """Classes have colours; `where` says which file lists them."""
    packed = {red << 16 | green << 8 | blue: number for (red, green, blue), number in classes.items()}
    colours = np.array(sorted(packed), np.int64)
    table = np.array([packed[int(colour)] for colour in colours], np.int16)
    return Numbering(table, f"the {len(colours)} colours of {where}", colours)


def _numbers(picture: Image.Image, path: str) -> npt.NDArray[np.int64]:
    if picture.mode not in ("L", "P", "1", "I", "I;16", "I;16B", "I;16L", "I;16N"):
        raise BadData(
            f"the mask {path} has mode {picture.mode}; expected the number of a class per pixel (grey, or a palette); "
            f"say which colour is which class in {CLASSES}, in lines such as: 64 128 64 tree"
        )
    values = np.asarray(picture).astype(np.int64)
    return np.where(values < 0, _MOST_NUMBERS, values)


def read_classes(path: Path) -> tuple[list[str], Numbering]:
    """Names from lines of `NAME`, or of `RED GREEN BLUE NAME` if masks are coloured; lines may share a name then."""
    lines = read_lines(path)
    if not lines:
        raise BadData(f"{path} names no class; expected a name on each line")
    words = [line.split(maxsplit=3) for line in lines]
    coloured = [len(line) == 4 and all(word.isdecimal() for word in line[:3]) for line in words]
    if not any(coloured):
        if repeated := [k for k, name in enumerate(lines) if name in lines[:k]]:
            raise BadData(f"{path}: '{lines[repeated[0]]}' is there twice; expected every class once")
        return lines, by_number(len(lines))
    names: list[str] = []
    colours: dict[tuple[int, int, int], int] = {}
    for number, (line, known) in enumerate(zip(words, coloured, strict=True), 1):
        if not known or any(int(word) > 255 for word in line[:3]):
            raise BadData(
                f"{path}, line {number}: expected three numbers up to 255 and a name, as on other lines"
            )
        red, green, blue = (int(word) for word in line[:3])
        if (red, green, blue) in colours:
            raise BadData(
                f"{path}, line {number}: the colour {red} {green} {blue} is there twice; expected it once"
            )
        if line[3].lower() == "void":
            colours[red, green, blue] = NO_CLASS
            continue
        if line[3] not in names:
            names.append(line[3])
        colours[red, green, blue] = names.index(line[3])
    return names, by_colour(colours, str(path))


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise BadData(f"{path} is not text in UTF-8; expected a name on each line") from error
