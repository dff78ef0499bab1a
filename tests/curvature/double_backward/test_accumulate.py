import torch

from vitscope.curvature.double_backward.accumulate import total


def test_total() -> None:
    one, two = torch.ones(3), torch.full((3,), 2.0)
    assert total(None, None) is None
    assert total(None, two) is two
    assert torch.equal(total(one, None, two), torch.full((3,), 3.0))  # type: ignore[arg-type]
    assert torch.equal(two, torch.full((3,), 2.0))
