"""`roi_align` as products of matrices, beside torchvision's."""

import pytest
import torch
from torch import Tensor
from torchvision.ops import roi_align as torchvisions

from vitscope.curvature.double_backward import TwiceDifferentiable

# a map, then left, top, right, bottom: inside, beyond the edges, outside, smaller than a point, of another map
BOXES = [
    [0, 1.3, 2.1, 9.7, 6.4],
    [1, -3.0, -2.5, 4.0, 30.0],
    [0, 40.0, 40.0, 60.0, 70.0],
    [1, 5.2, 5.2, 5.3, 5.25],
    [0, 0.0, 0.0, 22.0, 18.0],
    [0, 21.9, 17.9, 22.0, 18.0],
]


def values_and_gradient(maps: Tensor, boxes: Tensor, twice: bool, **how: object) -> tuple[Tensor, Tensor]:
    learned = maps.clone().requires_grad_()
    if twice:
        with TwiceDifferentiable():
            found = torchvisions(learned, boxes, (4, 3), **how)  # type: ignore[arg-type]
    else:
        found = torchvisions(learned, boxes, (4, 3), **how)  # type: ignore[arg-type]
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(2), dtype=found.dtype)
    (gradient,) = torch.autograd.grad((found.square() * weights).sum(), learned)
    return found.detach(), gradient


@pytest.mark.parametrize("ratio", [2, 3, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_values_and_gradient_are_torchvisions(ratio: int, aligned: bool) -> None:
    maps = torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    boxes = torch.tensor(BOXES, dtype=torch.float64)
    how = {"spatial_scale": 0.5, "sampling_ratio": ratio, "aligned": aligned}
    ours, theirs = (values_and_gradient(maps, boxes, twice, **how) for twice in (True, False))
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-12)


def test_no_boxes() -> None:
    maps, none = torch.randn(1, 2, 4, 4, dtype=torch.float64), torch.zeros(0, 5, dtype=torch.float64)
    ours, theirs = (values_and_gradient(maps, none, twice) for twice in (True, False))
    assert ours[0].shape == theirs[0].shape == (0, 2, 4, 3)
    assert torch.equal(ours[1], torch.zeros_like(maps))


def test_the_second_derivative_is_that_of_numbers() -> None:
    maps = torch.randn(1, 2, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    boxes = torch.tensor([[0, 0.4, 1.1, 4.2, 4.9]], dtype=torch.float64)

    def pooled(learned: Tensor) -> Tensor:
        with TwiceDifferentiable():
            return torchvisions(learned, boxes, 2, sampling_ratio=2).tanh()

    assert torch.autograd.gradgradcheck(pooled, maps.requires_grad_())
