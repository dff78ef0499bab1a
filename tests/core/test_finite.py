import pytest
import torch
from torch import nn

from vitscope.core.tensors import all_finite, checksum, images_not_finite, weights_not_finite


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_one_bad_number_among_many(dtype: torch.dtype, bad: float) -> None:
    numbers = torch.full((50, 40), 60000.0, dtype=dtype)  # their sum is no float16
    assert all_finite(numbers)
    numbers[31, 7] = bad
    assert not all_finite(numbers)
    assert images_not_finite(numbers).nonzero().tolist() == [[31]]


def test_huge_numbers_are_finite_though_their_sum_is_not() -> None:
    huge = torch.full((4,), 3e38)
    assert not checksum(huge).isfinite()
    assert all_finite(huge)


def test_weights_and_statistics_but_no_masks() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model.register_buffer("mask", torch.tensor([0.0, -float("inf")]))
    assert weights_not_finite(model) == {}
    with torch.no_grad():
        model[0].weight[1] = float("nan")
        model[1].running_var[2] = float("inf")
    assert weights_not_finite(model) == {"0.weight": 2, "1.running_var": 1}
