"""What an operation did to a model: parameters, arithmetic, and how much the outputs moved."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitscope.anatomy.flops import count_flops
from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import example_batch, runs_on
from vitscope.anatomy.watch.one_forward import examined_output
from vitscope.core import pd
from vitscope.core.arguments import checked
from vitscope.surgery.tools.choose import Example


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
        change = float("nan")
        if all(a.shape == b.shape for a, b in pairs):
            change = max((float((a - b).abs().max()) for a, b in pairs), default=0.0)
        scale = float(torch.cat([a.flatten() for a in self._outputs]).std())
        return Comparison((self._parameters, parameters), (self._flops, flops), change, scale)


def _measure(model: nn.Module, batch: Tensor) -> tuple[int, int, list[Tensor]]:
    with preserved(model), torch.no_grad():
        with runs_on(model, batch):
            given = model(batch)
        outputs = [output.float().clone() for output in examined_output(model, given, len(batch))]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return parameters, count_flops(model, tuple(batch.shape[1:])), outputs
