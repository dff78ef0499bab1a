"""What an operation did to a model: parameters, arithmetic, and how much the outputs moved.

What a model is made of, so that an operation that turns out wrong can be taken back whole.

Classes, children, parameters, buffers and attributes of every module are remembered, not what is in the tensors: an
operation puts other tensors in their place and writes into none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy.flops import count_flops
from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import example_batch
from vitscope.anatomy.watch.one_forward import examined_output
from vitscope.core import pd
from vitscope.core.arguments import checked
from vitscope.surgery.tools.vocabulary import Example


@dataclass(frozen=True)
class Comparison:
    """Before and after; the outputs are those of the same seeded random images, in evaluation mode."""

    parameters: tuple[int, int]
    flops: tuple[int, int]  # per image
    largest_change: float  # of any output
    output_scale: float  # standard deviation of the outputs before

    def table(self) -> pd.DataFrame:
        """Rows parameters, flops, output; columns before, after, change."""
        rows = [
            ("parameters", *self.parameters, self.parameters[1] - self.parameters[0]),
            ("flops", *self.flops, self.flops[1] - self.flops[0]),
            ("output", self.output_scale, float("nan"), self.largest_change),
        ]
        return pd.DataFrame(rows, columns=["quantity", "before", "after", "change"]).set_index("quantity")


class Before:
    """What is known of a model before it is operated on.

    before = Before(model)
    vs.surgery.smooth(model)
    print(before.compare(model).table())
    """

    @checked
    def __init__(self, model: nn.Module, example: Example = None) -> None:
        self._batch = example_batch(model, example)
        self._parameters, self._flops, self._outputs = _measure(model, self._batch)

    @checked
    def compare(self, model: nn.Module) -> Comparison:
        """Measure again, on the same images."""
        parameters, flops, outputs = _measure(model, self._batch)
        pairs = list(zip(self._outputs, outputs, strict=True))
        same_shape = all(a.shape == b.shape for a, b in pairs)
        change = (
            max((float((a - b).abs().max()) for a, b in pairs), default=0.0) if same_shape else float("nan")
        )
        scale = float(torch.cat([a.flatten() for a in self._outputs]).std())
        return Comparison((self._parameters, parameters), (self._flops, flops), change, scale)


def _measure(model: nn.Module, batch: Tensor) -> tuple[int, int, list[Tensor]]:
    with preserved(model), torch.no_grad():
        outputs = [output.float().clone() for output in examined_output(model, model(batch), len(batch))]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return parameters, count_flops(model, tuple(batch.shape[1:])), outputs


class Snapshot:
    """The modules of a model as they are now."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = {module: (type(module), dict(module.__dict__)) for module in model.modules()}
        attributes = [value for _, state in self._modules.values() for value in state.values()]
        # hooks are removed through the dict they were put into: that very dict must come back, with what was in it
        self._contents = [
            (value, value.copy()) for value in attributes if isinstance(value, dict | list | set)
        ]

    def __contains__(self, module: nn.Module) -> bool:
        return module in self._modules

    def restore(self) -> None:
        """Make the model what it was."""
        for module, (cls, state) in self._modules.items():
            object.__setattr__(module, "__class__", cls)
            module.__dict__.clear()
            module.__dict__.update(state)
        for container, content in self._contents:
            _refill(container, content)


def _refill(container: Any, content: Any) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)
