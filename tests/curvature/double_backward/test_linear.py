import pytest
import torch
import torch.nn.functional as F

from tests.curvature.double_backward.check import same_as_torch
from vitscope.curvature.double_backward.linear import linear


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
