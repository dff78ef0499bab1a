"""Linear maps, convolutions and GELU: values and two derivatives as torch has them."""

import pytest
import torch
import torch.nn.functional as F

from tests.curvature.double_backward.check import same_as_torch
from vitscope.curvature.double_backward.linear import conv2d, gelu, linear, total


@pytest.mark.parametrize("shape", [(7, 4), (2, 7, 4), (2, 3, 5, 4), (4,)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    tensors = [torch.randn(s, dtype=torch.float64) for s in (shape, (3, 4), (3,))]
    same_as_torch(linear, F.linear, *tensors[: 3 if bias else 2])


def test_an_input_that_is_not_contiguous() -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    weight = torch.randn(2, 4, dtype=torch.float64)
    same_as_torch(
        lambda x, w: linear(x.transpose(1, 2), w), lambda x, w: F.linear(x.transpose(1, 2), w), x, weight
    )


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


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    x = 3 * torch.randn(4, 5, 6, dtype=torch.float64)
    same_as_torch(lambda x: gelu(x, approximate=approximate), lambda x: F.gelu(x, approximate=approximate), x)


def test_total() -> None:
    one, two = torch.ones(3), torch.full((3,), 2.0)
    assert total(None, None) is None
    assert total(None, two) is two
    assert torch.equal(total(one, None, two), torch.full((3,), 3.0))  # type: ignore[arg-type]
    assert torch.equal(two, torch.full((3,), 2.0))
