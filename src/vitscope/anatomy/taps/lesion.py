"""Every lesion of a model on the same images, without computing again what comes before the unit left out.

    lesions = Lesions(model, parts, units)
    lesions.intact(images)               # an ordinary pass; what its operations give is kept
    lesions.without("blocks.3.attn")     # the pass again: up to that unit's addition every operation gives what
                                         # it gave, there the stream goes on without the branch

Units at all depths together so cost about half a pass each.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

from vitscope.anatomy.structure.unit import Anatomy, Unit
from vitscope.anatomy.taps.intervene import ANOTHER_PATH, Call, TapWatch
from vitscope.anatomy.watch.one_forward import operation_name, tensors_in
from vitscope.core.errors import PathChanged


class Lesions:
    """The passes over one batch after another; only the last one's is kept.

    Args:
        model: The model that `parts` was made from.
        parts: Its anatomy.
        units: What will be left out; each must be removable.
    """

    def __init__(self, model: nn.Module, parts: Anatomy, units: Iterable[Unit]) -> None:
        self._model = model
        self._watch = _ReplayWatch(parts, units)
        self._images: Tensor | None = None

    def intact(self, images: Tensor) -> Any:
        """The model's output; the pass is kept."""
        self._images = images
        self._watch.record()
        return self._pass()

    def without(self, unit: str) -> Any:
        """The model's output for the same images, without the unit of this name."""
        self._watch.replay(unit)
        return self._pass()

    def kept_bytes(self) -> int:
        """Memory that the kept pass takes."""
        storages = [tensor.untyped_storage() for tensor in self._watch.kept()]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def _pass(self) -> Any:
        with self._watch.following(self._model, self._watch.paths()), self._watch:
            return self._model(self._images)


class _Fork(NamedTuple):
    """Where a pass without a unit leaves the intact one: the step of its addition, and the stream there."""

    step: int
    stream: Tensor


class _ReplayWatch(TapWatch):
    """Keeps what every operation gives, and gives it again up to a fork."""

    def __init__(self, parts: Anatomy, units: Iterable[Unit]) -> None:
        super().__init__(parts)
        self._steps: list[tuple[str, Any]] = []  # name of the operation, and what it gave
        self._forks: dict[str, _Fork] = {}
        self._fork: _Fork | None = None  # None: recording
        self._step = 0
        for unit in units:
            self._expect_addition(unit)

    def record(self) -> None:
        """The next pass is kept, in the place of the last one kept."""
        self._steps.clear()
        self._forks.clear()
        self._fork = None

    def replay(self, unit: str) -> None:
        """The next pass leaves out this unit."""
        self._fork, self._step = self._forks[unit], 0

    def kept(self) -> Iterator[Tensor]:
        """Every tensor that the passes without a unit take from the pass with all units."""
        yield from tensors_in([result for _, result in self._steps])
        yield from (fork.stream for fork in self._forks.values())

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do the operation and keep what it gives, or give what was kept."""
        if self._fork is None:
            result = super().operation(func, args, kwargs)
            self._steps.append((operation_name(func), result))
            return result
        step, self._step = self._step, self._step + 1
        if step > self._fork.step:
            return func(*args, **kwargs)
        name, result = self._steps[step]
        if name != operation_name(func):
            raise PathChanged(f"'{operation_name(func)}' came in the place of '{name}': {ANOTHER_PATH}")
        # a copy, because what follows may write into the stream
        return self._fork.stream.clone() if step == self._fork.step else result

    def _check_all_met(self) -> None:
        if self._fork is None:  # in a replay nothing is expected, everything is counted
            super()._check_all_met()

    def _expect_addition(self, unit: Unit) -> None:
        def handle(call: Call) -> Any:
            # a copy, because this addition, if it is done in place, or a later operation may write into the stream
            self._forks[unit.name] = _Fork(len(self._steps), call.operands[unit.stream_operand].clone())
            return call.run()

        self.expect(unit.site, unit, handle)
