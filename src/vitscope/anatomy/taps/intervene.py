"""The running half of a tap: meet the planned operations in a forward pass, and notice when it went another way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vitscope.anatomy.structure.unit import Anatomy, Unit
from vitscope.anatomy.watch.one_forward import ForwardWatch, Frame, Site, operation_name, tensors_in
from vitscope.core.errors import PathChanged


@dataclass
class Call:
    """A planned operation as it is met: what it is called with, and how to run it."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    images: int  # in this batch

    @property
    def operands(self) -> list[Tensor]:
        """The tensors it is called with, in order."""
        return list(tensors_in((self.args, self.kwargs)))

    def run(self) -> Any:
        """Do the operation."""
        return self.function(*self.args, **self.kwargs)


Handler = Callable[[Call], Any]
ANOTHER_PATH = (
    "the model took another path than the one its anatomy watched (it decides by its data, or was changed since); "
    "take the anatomy again with vs.anatomy(model, example)"
)


@dataclass
class _Expected:
    unit: Unit
    handler: Handler
    met: bool = False


# what is expected inside one module: operation name -> (call, occurrence) -> what to do
_Plan = dict[str, dict[tuple[int, int], _Expected]]


class TapWatch(ForwardWatch):
    """Counts the planned operations inside the modules that own them and hands over where one is met."""

    def __init__(self, parts: Anatomy) -> None:
        super().__init__()
        self.parts = parts
        self._plans: dict[str, _Plan] = {"": {}}
        self._called: dict[str, Unit] = {}
        self._images = 0

    def expect(self, site: Site, unit: Unit, handler: Handler) -> None:
        """Call `handler` in place of the operation at `site`, which belongs to `unit`."""
        if site.name == "opaque":
            raise PathChanged(
                f"unit '{unit.name}' ends in code that cannot be watched (a scripted or autograd function); "
                "write that part as ordinary modules, or leave this unit out"
            )
        plan = self._plans.setdefault(site.path, {})
        plan.setdefault(site.name, {})[(site.call, site.occurrence)] = _Expected(unit, handler)
        self._called.setdefault(unit.called, unit)

    def paths(self) -> set[str]:
        """The modules whose calls must be followed."""
        return set(self._plans) | set(self._called)

    def enter(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """That of the model itself begins a pass."""
        if path == "":
            self._begin((*args, *kwargs.values()))
        super().enter(path, args, kwargs)

    def leave(self, path: str, output: Any) -> None:
        """That of the model itself ends the pass, which is then checked."""
        super().leave(path, output)
        if path == "" and output is not None:  # None: an exception is under way, which says more than this
            self._check_all_met()

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do the operation, or what the plan says in its place."""
        name = operation_name(func)
        here = [expected for frame in self.frames if (expected := self._meet(frame, name)) is not None]
        if not here:
            return func(*args, **kwargs)
        here[0].met = True
        return here[0].handler(Call(func, args, kwargs, self._images))

    def _meet(self, frame: Frame, name: str) -> _Expected | None:
        table = self._plans.get(frame.path, {}).get(name)
        if table is None:
            return None
        occurrence = frame.seen[name]
        frame.seen[name] += 1
        return table.get((frame.call, occurrence))

    def _begin(self, inputs: tuple[Any, ...]) -> None:
        self.frames.clear()
        self.calls.clear()
        for expected in self._all():
            expected.met = False
        rank = len(self.parts.input_shape) + 1  # there may be text beside the images
        images = next((t for t in tensors_in(inputs) if t.dim() == rank), None)
        if images is None:
            return
        self._images = images.shape[0]
        if tuple(images.shape[1:]) != self.parts.input_shape:
            seen, wanted = ("x".join(map(str, s)) for s in (images.shape[1:], self.parts.input_shape))
            raise PathChanged(
                f"the model is given {seen} images, but its anatomy was taken at {wanted}; "
                f"take it again with vs.anatomy(model, {tuple(images.shape[1:])})"
            )

    def _all(self) -> list[_Expected]:
        tables = [table for plan in self._plans.values() for table in plan.values()]
        return [expected for table in tables for expected in table.values()]

    def _check_all_met(self) -> None:
        for expected in self._all():
            if not expected.met:
                raise PathChanged(f"unit '{expected.unit.name}' was not reached in this pass: {ANOTHER_PATH}")
        for path, unit in self._called.items():
            if path and not self.calls[path]:
                raise PathChanged(
                    f"unit '{unit.name}' was reached, but '{path}' was not called in this pass: {ANOTHER_PATH}"
                )

    def check_shape(self, unit: Unit, tensor: Tensor) -> None:
        """The stream after `unit` must be what anatomy saw, but for the number of images."""
        seen, wanted = tuple(tensor.shape), unit.example_shape
        now, then = self._images, self.parts.batch
        other = [(a, b) for a, b in zip(seen, wanted, strict=False) if a != b]
        if len(seen) == len(wanted) and len(other) <= 1 and all(a * then == b * now for a, b in other):
            return
        raise PathChanged(
            f"unit '{unit.name}' gave a {'x'.join(map(str, seen))} tensor for {now} images, where its anatomy "
            f"saw {'x'.join(map(str, wanted))} for {then}: {ANOTHER_PATH}"
        )
