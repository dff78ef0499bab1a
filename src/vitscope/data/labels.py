"""Labels as data sets publish them: which of a model's outputs are right about an image, and which may be chosen.

    relabel(data, labels="imagenet", classes="present")   ImageNet-A and its kind: folders named by WordNet ids
    relabel(data, labels="numeric")                       ImageNet-V2: folders 0 .. 999, which sort as 0, 1, 10 ...
    relabel(data, labels="real:real.json")                ReaL: any number of right labels for each image

Afterwards label k is output k of the model. What else there is to know (the outputs that may be chosen, the other right
labels) is in the data's `Readout`: how a model's outputs are read as answers.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.data.images import ImageData, Indices
from vitscope.results.plain_files import read_plain

PRESENT = "present"
REAL = "real:"
# ILSVRC2012_val_00000001.JPEG belongs to the first entry of real.json
_VALIDATION_FILE = re.compile(r"_(\d{8})\.[A-Za-z]+$")

Answers = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Readout:
    """How a model's outputs are read as answers about some data."""

    classes: tuple[str, ...] = ()  # a name per answer; none if they are not known
    outputs: Indices | None = None  # the model's outputs that may be chosen, ascending; None: all
    answers: Answers | None = (
        None  # by place in the data, all outputs that are right; None: the label alone is
    )

    def __call__(self, logits: Any, labels: Tensor, indices: Tensor) -> tuple[Any, Tensor]:
        """Logits of the answers that may be chosen, and the label of each image among them.

        What is no logits, such as boxes of objects, stays as it is. Of several right labels the one with the largest
        logit counts: the prediction is right if it is any of them, and the likelihood is that of the best of them.
        """
        if self.answers is not None:
            right = [self.answers[int(i)] for i in indices]
            best = [
                k[int(row[list(k)].argmax())] if len(k) > 1 else k[0]
                for row, k in zip(logits, right, strict=True)
            ]
            labels = torch.tensor(best, dtype=torch.int64, device=labels.device)
        if self.outputs is not None:
            if self.outputs[-1] >= logits.shape[1]:
                raise BadData(
                    f"the model has outputs 0 to {logits.shape[1] - 1}, the classes need output {self.outputs[-1]}; "
                    "take a model with as many outputs as the labels have classes"
                )
            outputs = torch.from_numpy(self.outputs)
            logits = logits[:, outputs.to(logits.device)]
            labels = torch.searchsorted(outputs.to(labels.device), labels)
        return logits, labels

    @property
    def digest(self) -> bytes:
        """What makes this one differ from others, to recognise finished work by; empty if output k is label k."""
        if self.outputs is None and self.answers is None:
            return b""
        outputs = None if self.outputs is None else self.outputs.tolist()
        return hashlib.sha256(json.dumps([outputs, self.answers]).encode()).digest()


PLAIN = Readout()


class RelabelledData(ImageData):
    """Image data whose labels are a model's outputs."""

    def __init__(
        self,
        data: ImageData,
        spec: str,
        classes: Sequence[str],
        labels: Indices,
        outputs: Indices | None,
        answers: Answers | None,
    ) -> None:
        super().__init__(spec, data.split, classes, labels, data.images, data.reader, data.positions)
        self.outputs, self.answers = outputs, answers

    def subset(self, indices: Indices) -> "RelabelledData":
        """The images at `indices`, in that order."""
        plain = super().subset(indices)
        answers = None if self.answers is None else tuple(self.answers[int(i)] for i in indices)
        return RelabelledData(plain, self.spec, self.classes, plain.labels, self.outputs, answers)


def readout(data: Any) -> Readout:
    """How outputs are read for this data."""
    if isinstance(data, RelabelledData):
        chosen = range(len(data.classes)) if data.outputs is None else data.outputs.tolist()
        return Readout(tuple(data.classes[k] for k in chosen), data.outputs, data.answers)
    return Readout(data.classes) if isinstance(data, ImageData) else PLAIN


def relabel(data: ImageData, labels: str | None = None, classes: str | None = None) -> RelabelledData:
    """`data` with published labels; images without a right answer are left out.

    Args:
        data: What `load_data` gives.
        labels: "imagenet" (class folders are WordNet ids of ImageNet-1k), "numeric" (class folders are numbers),
            "real:PATH" (a list of right labels for each validation image); default: as they are.
        classes: Which outputs may be chosen: "present" (those of classes with images), or a file that names a class
            in each line; default: all.
    """
    if not isinstance(data, ImageData) or isinstance(data, RelabelledData):
        raise BadData(f"labels can be given to what load_data gives, once, not to a {type(data).__name__}")
    names, answers = _answers(data, labels)
    outputs = None if classes is None else _outputs(classes, names, answers)
    if outputs is not None:
        allowed = frozenset(outputs.tolist())
        answers = tuple(tuple(k for k in right if k in allowed) for right in answers)
    kept = np.array([i for i, right in enumerate(answers) if right], dtype=np.int64)
    if not len(kept):
        raise BadData(
            f"{data.spec}: no image has a right answer left; check --labels {labels} --classes {classes}"
        )
    answers = tuple(answers[i] for i in kept)
    said = [f"labels {labels}" if labels else "", f"classes {classes}" if classes else ""]
    return RelabelledData(
        data if len(kept) == len(data) else data.subset(kept),
        f"{data.spec}, {', '.join(filter(None, said))}" if any(said) else data.spec,
        names,
        np.array([right[0] for right in answers], dtype=np.int64),
        outputs,
        answers if any(len(right) > 1 for right in answers) else None,
    )


def labels_hint(data: Any, outputs: int | None) -> str | None:
    """What to type if the folders' names say that their alphabetical order is not the order of the outputs."""
    if not isinstance(data, ImageData) or isinstance(data, RelabelledData):
        return None
    numbers = [int(name) for name in data.classes if name.isdecimal()]
    if len(numbers) == len(data.classes) and numbers != sorted(numbers):
        wrong = next(k for k, number in enumerate(numbers) if number != k)
        return (
            f"the classes are numbers in alphabetical order: label {wrong} is '{data.classes[wrong]}'; "
            "if the number is the label, as in ImageNet-V2, add --labels numeric"
        )
    if outputs == 1000 and 0 < len(data.classes) < outputs and set(data.classes) <= set(imagenet_classes()):
        return (
            f"the classes are {len(data.classes)} of ImageNet's 1000; to compare them with the right outputs add "
            "--labels imagenet (and --classes present if only these may be chosen, as in ImageNet-A)"
        )
    return None


def imagenet_classes() -> tuple[str, ...]:
    """The WordNet ids of ImageNet-1k in the order of a model's outputs."""
    from timm.data import ImageNetInfo

    return tuple(ImageNetInfo("imagenet-1k").label_names())


def _answers(data: ImageData, labels: str | None) -> tuple[Sequence[str], Answers]:
    """The name of each output, and for each image the outputs that are right."""
    if labels is None:
        return data.classes, tuple((int(k),) for k in data.labels)
    if labels == "imagenet":
        names = imagenet_classes()
        place = {name: k for k, name in enumerate(names)}
        if unknown := [name for name in data.classes if name not in place]:
            raise BadData(
                f"{data.spec}: class '{unknown[0]}' is no class of ImageNet-1k; expected folders like {names[0]}"
            )
        return names, tuple((place[data.classes[k]],) for k in data.labels)
    if labels == "numeric":
        if unknown := [name for name in data.classes if not name.isdecimal()]:
            raise BadData(f"{data.spec}: class '{unknown[0]}' is no number; expected folders 0, 1, 2 ...")
        numbers = [int(name) for name in data.classes]
        return [str(k) for k in range(max(numbers) + 1)], tuple((numbers[k],) for k in data.labels)
    if labels.startswith(REAL):
        known = set(data.classes) <= set(imagenet_classes())
        names = imagenet_classes() if known else data.classes
        return names, _real(data, Path(labels.removeprefix(REAL)).expanduser(), len(names))
    raise BadData(f"no labels '{labels}'; there are imagenet, numeric, real:PATH")


def _real(data: ImageData, path: Path, n_classes: int) -> Answers:
    """Entries of `real.json` by the number in the file names of ImageNet's validation images, or one for each image."""
    entries = _read(path)
    places = list(range(len(data)))
    if data.reader is None and len(entries) != len(data):
        raise BadData(
            f"{path} has labels for {len(entries)} images, {data.spec} has {len(data)}; they must agree"
        )
    if data.reader is not None:
        places = [_number_in_name(data.name(i)) - 1 for i in range(len(data))]
        if max(places) >= len(entries):
            raise BadData(
                f"{path} has labels for {len(entries)} images, {data.name(int(np.argmax(places)))} is number "
                f"{max(places) + 1}; take the file of the same validation set"
            )
    answers = tuple(tuple(dict.fromkeys(entries[place])) for place in places)
    for place, right in zip(places, answers, strict=True):
        if any(not 0 <= k < n_classes for k in right):
            raise BadData(
                f"{path}: image {place} has labels {list(right)}, expected 0 to {n_classes - 1}; "
                f"take the file made for these {n_classes} classes"
            )
    return answers


def _read(path: Path) -> list[list[int]]:
    try:
        entries = json.loads(read_plain(path))
    except (OSError, ValueError, RecursionError) as error:
        raise BadData(
            f"cannot read labels from {path} ({reason(error)}); expected the file real.json of ReaL"
        ) from error
    if not isinstance(entries, list) or not all(
        isinstance(entry, list) and all(type(k) is int for k in entry) for entry in entries
    ):
        raise BadData(f"{path} is not a list of lists of labels; expected the file real.json of ReaL")
    return entries


def _number_in_name(name: str) -> int:
    found = _VALIDATION_FILE.search(name)
    if found is None or int(found[1]) == 0:
        raise BadData(
            f"{name} does not tell its number; real:PATH needs names like ILSVRC2012_val_00000001.JPEG"
        )
    return int(found[1])


def _outputs(classes: str, names: Sequence[str], answers: Answers) -> Indices:
    present = {k for right in answers for k in right}
    chosen = present if classes == PRESENT else _from_file(Path(classes).expanduser(), names)
    if len(chosen) < 2:
        raise BadData(f"--classes {classes} leaves {len(chosen)} classes to choose from; expected at least 2")
    return np.array(sorted(chosen), dtype=np.int64)


def _from_file(path: Path, names: Sequence[str]) -> set[int]:
    try:
        lines = [line.strip() for line in read_plain(path).decode().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(
            f"cannot read classes from {path} ({reason(error)}); expected a file or '{PRESENT}'"
        ) from error
    place = {name: k for k, name in enumerate(names)}
    lines = [line if line in place else line.split()[0] for line in lines]  # "n01440764 tench" is usual
    if unknown := [name for name in lines if name not in place]:
        raise BadData(f"{path}: '{unknown[0]}' is no class; expected names such as {', '.join(names[:3])}")
    return {place[name] for name in lines}
