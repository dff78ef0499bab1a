"""Give the attention of a module local reach without touching the module.

The step is put around the module that computes the attention. While that module runs, the call of the fused attention,
or the softmax of attention written by hand, is met and given local reach; everything else in the module is its own.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy.structure.neighbourhood import Grid, neighbourhood
from vitscope.anatomy.watch.one_forward import OperationMode
from vitscope.core.errors import VitscopeError
from vitscope.models.zoo.local_attention import LocalAttention, hiding
from vitscope.surgery.tools.map_source import MapSource, same_shape

FUSED = (F.scaled_dot_product_attention,)
SOFTMAX = (torch.softmax, Tensor.softmax, F.softmax)


class LocalReach(nn.Module):
    """Runs a module with one of its attentions made local.

    Args:
        occurrence: Which of the module's fused attentions, or softmaxes, it is.
        grid: Rows and columns of the points, which come by rows.
        kernel: Side of the neighbourhood.
        prefix: Tokens that stand before the points.
        source: The map that the points come from; None: they are always of the grid's shape.
    """

    functions: tuple[Any, ...]

    def __init__(
        self, occurrence: int, grid: Grid, kernel: int, prefix: int, source: MapSource | None = None
    ) -> None:
        super().__init__()
        self.occurrence, self.grid, self.kernel, self.prefix = occurrence, grid, kernel, prefix
        self.source = source

    def forward(self, run: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `run` with these arguments."""
        with _Meet(self):
            return run(*args, **kwargs)

    def attend(self, function: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Called in place of the attention."""
        raise NotImplementedError

    def grid_of(self, tokens: int) -> Grid:
        """The grid that so many tokens are: that of the map they come from, or one of the shape it was made for."""
        points = tokens - self.prefix
        found = (
            same_shape(points, self.grid) if self.source is None else self.source.grid_of(points, self.grid)
        )
        if found is None:
            height, width = self.grid
            raise VitscopeError(
                f"{tokens} tokens are not {self.prefix} and a grid of the shape {height}x{width}; give images of "
                "the shape the model was localized for, or localize it for another: localize(model, example=...)"
            )
        return found

    def extra_repr(self) -> str:
        """Settings."""
        return f"grid={self.grid}, kernel={self.kernel}, prefix={self.prefix}"


class FusedReach(LocalReach):
    """For fused attention."""

    functions = FUSED

    def __init__(
        self, occurrence: int, grid: Grid, kernel: int, prefix: int, source: MapSource | None = None
    ) -> None:
        super().__init__(occurrence, grid, kernel, prefix, source)
        self.attention = LocalAttention(grid, kernel, prefix)

    def attend(self, function: Any, query: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Local attention."""
        grid, attention = self.grid_of(query.shape[-2]), self.attention
        if grid != self.grid:
            attention = LocalAttention(grid, self.kernel, self.prefix).to(query.device)
        found: Tensor = attention(query, *args, **kwargs)
        return found


class SoftmaxReach(LocalReach):
    """For a softmax over scores (..., queries, keys), or (..., keys, queries) if it runs over the last axis but one."""

    functions = SOFTMAX
    bias: Tensor

    def __init__(
        self, occurrence: int, grid: Grid, kernel: int, prefix: int, source: MapSource | None = None
    ) -> None:
        super().__init__(occurrence, grid, kernel, prefix, source)
        self.register_buffer("bias", hiding(neighbourhood(grid, (kernel, kernel), prefix)), persistent=False)

    def attend(self, function: Any, scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Softmax of the scores, those of what is not seen lowered to -inf."""
        grid, bias = self.grid_of(scores.shape[-1]), self.bias
        if grid != self.grid:
            bias = hiding(neighbourhood(grid, (self.kernel, self.kernel), self.prefix, scores.device))
        axis = args[0] if args else kwargs["dim"]
        bias = bias if axis in (-1, scores.dim() - 1) else bias.T
        found: Tensor = function(scores + bias.to(scores.dtype), *args, **kwargs)
        return found


class _Meet(OperationMode):
    """Hands one operation of a running module over to a `LocalReach`."""

    def __init__(self, reach: LocalReach) -> None:
        super().__init__()
        self.reach, self.met = reach, 0

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called in place of every torch operation."""
        if func not in self.reach.functions:
            return func(*args, **kwargs)
        self.met += 1
        if self.met - 1 != self.reach.occurrence:
            return func(*args, **kwargs)
        return self.reach.attend(func, *args, **kwargs)
