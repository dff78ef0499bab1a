"""`easy-vqa`: 5,000 pictures of one shape each, 48,248 simple questions about them; from the Python package, MIT."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.data.catalog import CATALOG, SPLITS, Arrays
from vitscope.data.decode import open_image
from vitscope.data.fetch import check_digest, find_file

# of questions and answers, and of the pixels of all pictures in their order
DIGESTS = {
    "train": "sha256:548f3592e9d7d1a0118e088beba41a7577cc19803c4f64aa0222d6da800bbb4f",
    "test": "sha256:886e7eecaeae12a168e7ec621a9ec3f2293d0a4b701ee486bf27c0f3a3639ede",
}


def read_easy_vqa(folder: Path, report: Callable[[str], None] = print) -> Arrays:
    """Images (M, 64, 64, 3), questions (N,), numbers of answers (N,) and of images (N,) of both splits."""
    root = find_file(folder, "answers.txt").parent
    answers = CATALOG["easy-vqa"].classes
    listed = tuple((root / "answers.txt").read_text().split())
    if listed != answers:
        raise BadData(f"{root / 'answers.txt'} lists {', '.join(listed)}; expected {', '.join(answers)}")
    return {split: _read_split(root / split, answers, report) for split in SPLITS}


def _read_split(
    folder: Path, answers: tuple[str, ...], report: Callable[[str], None]
) -> tuple[npt.NDArray[np.generic], ...]:
    path = folder / "questions.json"
    report(f"reading {folder.name}/questions.json and its pictures")
    try:
        rows = json.loads(path.read_bytes())
        words, said, pictures = zip(*((str(q), str(a), int(i)) for q, a, i in rows), strict=True)
    except (OSError, ValueError, TypeError) as error:
        raise BadData(f"cannot read {path} ({reason(error)}); fetch the package again") from error
    if unknown := [k for k, answer in enumerate(said) if answer not in answers]:
        raise BadData(
            f"{path}: question {unknown[0]} has the answer '{said[unknown[0]]}', which is not in answers.txt; "
            "fetch the package again"
        )
    images = np.stack([_image(folder / "images" / f"{k}.png") for k in range(max(pictures) + 1)])
    check_digest(hashlib.sha256(path.read_bytes()).digest() + images.tobytes(), DIGESTS[folder.name], folder)
    numbers = np.array([answers.index(answer) for answer in said], np.uint8)
    return images, np.array(words), numbers, np.array(pictures, np.int64)


def _image(path: Path) -> npt.NDArray[np.uint8]:
    picture: Image.Image = open_image(path)
    return np.asarray(picture.convert("RGB"))
