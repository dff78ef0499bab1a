"""What an exam collects batch by batch: named sums, which merge by addition over parts and over processes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor

from vitscope.core import distributed


class Sums:
    """Base of accumulators: tensors on the CPU that start at zero and to which `update` adds, without gradients.

    A subclass declares them with `add_sum` and finds them as its attributes.
    """

    update: Callable[..., None]

    def __init__(self) -> None:
        self._names: list[str] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "update" in cls.__dict__:
            cls.update = torch.no_grad()(cls.__dict__["update"])

    def add_sum(self, name: str, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64) -> None:
        """A sum of this shape, zero at first."""
        self._names.append(name)
        setattr(self, name, torch.zeros(shape, dtype=dtype))

    def state(self) -> dict[str, Tensor]:
        """The sums of this process so far, by name."""
        return {name: getattr(self, name) for name in self._names}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from sums that `state` gave."""
        for name in self._names:
            setattr(self, name, state[name].clone())

    def merge_state(self, other: Self) -> None:
        """Take in what another one of the same kind has collected from other images."""
        for name, tensor in other.state().items():
            setattr(self, name, getattr(self, name) + tensor)

    @contextmanager
    def of_all_processes(self) -> Iterator[None]:
        """Inside, the sums are those over all processes; afterwards again this one's own."""
        own = self.state()
        if distributed.is_active():
            for name, tensor in own.items():
                total = tensor.clone()
                distributed.all_reduce(total, group=distributed.cpu_group())
                setattr(self, name, total)
        try:
            yield
        finally:
            self.load_state(own)
