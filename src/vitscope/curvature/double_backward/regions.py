"""torchvision's `roi_align`, which has no second derivative: a map x is sampled in boxes, as a product of matrices.

A box is divided into P x Q bins, and a bin has g x h points (v_i, u_j). The value at a point is interpolated from the
four points of the map around it, and a bin is the mean of its points. Rows and columns can be treated one by one:

    y[p, q] = Σ_rs A[p, r] x[r, s] B[q, s],       A[p, r] = 1/g Σ_i  max(0, 1 - |clamp(v_i, 0, H - 1) - r|)

where points with v_i < -1 or v_i > H, which lie outside of the map, add nothing; B is the same for columns. y is linear
in x and boxes have no derivative, as in torchvision, so that torch differentiates the products as often as wanted.
"""

import torch
from torch import Tensor


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """(K, C, P, Q) of maps (N, C, H, W) and boxes (K, 5): the place of a map, then left, top, right, bottom."""
    height, width = input.shape[2:]
    shift = 0.5 if aligned else 0.0
    left, top, right, bottom = (rois.detach()[:, 1:].to(input.dtype) * spatial_scale - shift).unbind(1)
    least = -torch.inf if aligned else 1.0  # the older form takes every box to be one point wide at least
    rows = _weights(top, (bottom - top).clamp(min=least), height, pooled_height, sampling_ratio)
    columns = _weights(left, (right - left).clamp(min=least), width, pooled_width, sampling_ratio)
    places, found = rois[:, 0].long(), []
    for place in places.unique(sorted=True).tolist():
        own = places == place
        flat = input[place].transpose(0, 1).reshape(height, -1)  # (H, C W)
        across = (rows[own].reshape(-1, height) @ flat).view(-1, pooled_height, input.shape[1], width)
        found.append(across.transpose(1, 2) @ columns[own].transpose(1, 2)[:, None])
    if not found:
        return input.sum() * 0.0 + input.new_zeros(0, input.shape[1], pooled_height, pooled_width)
    back = torch.argsort(torch.argsort(places, stable=True), stable=True)
    return torch.cat(found)[back]


def _weights(start: Tensor, length: Tensor, size: int, bins: int, ratio: int) -> Tensor:
    """(K, bins, size): what every point of the map adds to every bin, along one side."""
    points = torch.full_like(length, ratio) if ratio > 0 else torch.ceil(length / bins).clamp(min=0.0)
    most = int(points.max()) if len(points) else 0
    step = (length / bins)[:, None, None]
    bin_, point = (torch.arange(n, dtype=start.dtype, device=start.device) for n in (bins, most))
    counted = points[:, None, None].clamp(min=1.0)
    where = start[:, None, None] + bin_[:, None] * step + (point + 0.5) * (step / counted)  # (K, bins, most)
    inside = (where >= -1.0) & (where <= size) & (point < points[:, None, None])
    grid = torch.arange(size, dtype=start.dtype, device=start.device)
    near = (1.0 - (where.clamp(0.0, size - 1.0)[..., None] - grid).abs()).clamp(min=0.0)
    return (near * inside[..., None]).sum(2) / counted
