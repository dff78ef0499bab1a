"""Who is near whom on a grid: the points a k x k kernel sees, as a mask, and the kernel of such a mask.

    allowed[i, j]  =  -(k - 1) // 2  <=  y(j) - y(i)  <=  k // 2,  and the same for x

An odd kernel reaches equally far to both sides, an even one a point further down and right, as a convolution with
"same" padding does. Outside of the grid there is nothing. Along a side that is no longer than the kernel every point
sees all of it, whatever the other side is.
Prefix tokens (class token, registers) stand before the grid's points, see everybody and are seen by everybody.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

Grid = tuple[int, int]


def neighbours(size: int, kernel: int, device: torch.device | None = None) -> Tensor:
    """Which points of a line each of its points sees, (size, size), true where seen."""
    if kernel >= size:
        return torch.ones(size, size, dtype=torch.bool, device=device)
    points = torch.arange(size, device=device)
    step = points - points[:, None]
    return (step >= -((kernel - 1) // 2)) & (step <= kernel // 2)


def neighbourhood(grid: Grid, kernel: Grid, prefix: int = 0, device: torch.device | None = None) -> Tensor:
    """Which tokens each token sees, (tokens, tokens), true where seen; tokens are the prefix, then the grid by rows."""
    rows, columns = (neighbours(size, reach, device) for size, reach in zip(grid, kernel, strict=True))
    near = rows[:, None, :, None] & columns[None, :, None, :]
    points = grid[0] * grid[1]
    return F.pad(near.reshape(points, points), (prefix, 0, prefix, 0), value=True)


def kernel_of(seen: Tensor, grid: Grid, prefix: int) -> Grid | None:
    """The kernel whose neighbourhood a (tokens, tokens) mask is; None if it is none, or hides nothing."""
    points = grid[0] * grid[1]
    if seen.shape != (prefix + points, prefix + points) or bool(seen.all()):
        return None
    near = seen[prefix:, prefix:].reshape(*grid, *grid)
    kernel = int(near.any(3).any(1).sum(1).max()), int(near.any(2).any(0).sum(1).max())
    same = torch.equal(seen, neighbourhood(grid, kernel, prefix, seen.device))
    return kernel if same else None
