"""One pass over the images whose sums so far are kept, so that an interrupted one goes on where it stopped.

Every condition of an exam is measured on a batch before the next batch is read: images are read and prepared once, and
what conditions share (a gradient, a spectrum) is computed once. A part of such an exam is therefore what one process
has summed up over its first batches. It is of use to a pass with the same batch size and the same number of processes;
all others start from the beginning.
"""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from vitscope.core import distributed
from vitscope.engine.finished_parts import Parts
from vitscope.engine.own_passes import OwnNumbers, OwnPasses
from vitscope.engine.robustness.conditions import ConditionScores

Predict = Callable[[Tensor, Tensor, Tensor], Iterable[tuple[str, Tensor]]]


class ResumablePass:
    """The state of such a pass; every process makes one before the images are opened.

    Attributes:
        done: Batches that this process has seen before; they are to be skipped.
    """

    def __init__(self, parts: Parts | None, batch_size: int) -> None:
        self._parts = parts or Parts.nowhere()
        world = distributed.world_size()
        names = [f"process {rank} of {world}, batches of {batch_size}" for rank in range(world)]
        self._name = names[distributed.rank()]
        self._kept = self._parts.finished(names).get(self._name, {})
        self.done = int(self._kept.get("batches", 0))

    def restore(self, numbers: Mapping[str, OwnNumbers]) -> None:
        """Put back what was collected from the batches that are skipped."""
        for name, number in numbers.items():
            if self.done:
                number.load_state({state: self._kept[f"{name}/{state}"] for state in number.state()})

    def keep(self, numbers: Mapping[str, OwnNumbers]) -> None:
        """One more batch is in `numbers`."""
        self.done += 1
        states = {
            f"{name}/{state}": tensor
            for name, number in numbers.items()
            for state, tensor in number.state().items()
        }
        self._parts.put(self._name, {"batches": torch.tensor(self.done), **states})

    def __enter__(self) -> Self:
        self._parts.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.__exit__(kind, error, trace)


def score_conditions(
    exam: str,
    own: OwnPasses,
    resumable: ResumablePass,
    conditions: Iterable[str],
    predict: Predict,
    seed: int,
) -> dict[str, dict[str, Tensor]]:
    """What `ConditionScores` gives for each condition, over all images of all processes.

    Args:
        exam: Its name, for the progress bar.
        own: The open images.
        resumable: Where the pass stands.
        conditions: Their names.
        predict: From images, labels and indices of a batch to each condition's name and logits.
        seed: Of the bootstrap.
    """
    scores = {name: ConditionScores(seed) for name in conditions}
    resumable.restore(scores)
    with resumable, own.progress(exam) as advance:
        for images, labels, indices in own.stream:
            for name, logits in predict(images, labels, indices):
                scores[name].update(*own.readout(logits, labels, indices), indices)
            resumable.keep(scores)
            advance(len(labels))
    return {name: found.finish() for name, found in scores.items()}
