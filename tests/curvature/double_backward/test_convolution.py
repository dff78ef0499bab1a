"""Convolutions: values and two derivatives as torch has them."""

import pytest
import torch
import torch.nn.functional as F

from tests.curvature.double_backward.check import same_as_torch
from vitscope.curvature.double_backward.convolution import conv2d, total


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (3, {}),
        (3, {"padding": 1, "stride": 2}),
        (1, {"stride": (2, 1)}),
        (2, {"stride": 2, "dilation": 2, "padding": (1, 0)}),
        (3, {"groups": 2, "padding": 1}),
        (3, {"groups": 4, "padding": [1]}),
        (3, {"padding": "same"}),
    ],
)
def test_conv2d(kernel: int, options: dict[str, object]) -> None:
    channels = 4 // int(options.get("groups", 1))  # type: ignore[call-overload]
    tensors = [
        torch.randn(shape, dtype=torch.float64)
        for shape in ((2, 4, 6, 7), (8, channels, kernel, kernel), (8,))
    ]

    def ours(*args: torch.Tensor) -> torch.Tensor:
        return conv2d(*args, **options)  # type: ignore[arg-type]

    def theirs(*args: torch.Tensor) -> torch.Tensor:
        return F.conv2d(*args, **options)  # type: ignore[arg-type]

    same_as_torch(ours, theirs, *tensors)
    same_as_torch(ours, theirs, *tensors[:2])


def test_total() -> None:
    one, two = torch.ones(3), torch.full((3,), 2.0)
    assert total(None, None) is None
    assert total(None, two) is two
    assert torch.equal(total(one, None, two), torch.full((3,), 3.0))  # type: ignore[arg-type]
    assert torch.equal(two, torch.full((3,), 2.0))
