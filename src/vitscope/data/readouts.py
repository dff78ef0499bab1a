"""How a model's outputs are read as answers about some data, where that is more than "output k is label k"."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vitscope.core.errors import BadData
from vitscope.data.images import ImageData, Indices

Answers = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Readout:
    """How a model's outputs are read as answers about some data.

    Attributes:
        classes: A name per answer; none if they are not known.
        outputs: The model's outputs that may be chosen, ascending; None: all.
        answers: By place in the data, all outputs that are right; None: the label alone is.
    """

    classes: tuple[str, ...] = ()
    outputs: Indices | None = None
    answers: Answers | None = None

    def __call__(self, logits: Tensor, labels: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the answers that may be chosen, and the label of each image among them.

        Of several right labels the one with the largest logit counts: the prediction is right if it is any of
        them, and the likelihood is that of the best of them.
        """
        if self.answers is not None:
            labels = torch.tensor(
                [self._best(row, int(i)) for row, i in zip(logits, indices, strict=True)],
                dtype=torch.int64,
                device=labels.device,
            )
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

    def _best(self, row: Tensor, index: int) -> int:
        assert self.answers is not None
        right = self.answers[index]
        return right[int(row[list(right)].argmax())] if len(right) > 1 else right[0]


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
        self.outputs = outputs
        self.answers = answers

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
