import pytest
import torch
import torch.nn.functional as F

from tests.curvature.double_backward.check import same_as_torch
from vitscope.curvature.double_backward.linear import gelu


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    x = 3 * torch.randn(4, 5, 6, dtype=torch.float64)
    same_as_torch(lambda x: gelu(x, approximate=approximate), lambda x: F.gelu(x, approximate=approximate), x)
