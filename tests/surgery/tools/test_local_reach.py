"""Local reach around modules that attend in different ways."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy.structure.neighbourhood import neighbourhood
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.local_reach import FusedReach, SoftmaxReach


class Attends(nn.Module):
    """Attention without projections, twice, in one of several ways; the first time its result is the query."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        return self.once(self.once(x, x), x)

    def once(self, query: Tensor, x: Tensor) -> Tensor:
        if self.way == "fused":
            return F.scaled_dot_product_attention(query, x, x, scale=1.0)
        if self.way == "transposed":
            return ((x @ query.mT).softmax(-2).mT) @ x
        scores = query @ x.mT
        how = {
            "torch.softmax": lambda: torch.softmax(scores, -1),
            "method": lambda: scores.softmax(dim=-1),
            "functional": lambda: F.softmax(scores, dim=2),
            "module": lambda: nn.Softmax(-1)(scores),
        }
        return how[self.way]() @ x


def wanted(x: Tensor, which: int, grid: tuple[int, int], kernel: int, prefix: int) -> Tensor:
    """Both attentions in float64, the one that is meant restricted."""
    seen = neighbourhood(grid, (kernel, kernel), prefix)
    query = x.double()
    for turn in range(2):
        scores = query @ x.double().mT
        scores = scores.masked_fill(~seen, float("-inf")) if turn == which else scores
        query = scores.softmax(-1) @ x.double()
    return query.float()


@pytest.mark.parametrize("way", ["fused", "torch.softmax", "method", "functional", "module", "transposed"])
@pytest.mark.parametrize("which", [0, 1])
def test_the_one_that_is_meant_and_no_other(way: str, which: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Attends(way))
    reach = (FusedReach if way == "fused" else SoftmaxReach)(which, (4, 5), 3, 1)
    graft(model, "0", reach, "localize", "around")
    x = torch.randn(2, 21, 6)
    torch.testing.assert_close(model(x), wanted(x, which, (4, 5), 3, 1))
    other = torch.randn(2, 1 + 8 * 10, 6)  # a grid of the same shape
    torch.testing.assert_close(model(other), wanted(other, which, (8, 10), 3, 1))
    with pytest.raises(VitscopeError, match="4x5"):
        model(torch.randn(2, 1 + 7 * 7, 6))
    assert not model.state_dict()


def test_multi_head_attention_is_entered() -> None:
    torch.manual_seed(0)
    inner = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 20, 8)
    seen = neighbourhood((4, 5), (3, 3))
    for need_weights in (False, True):
        by_mask = inner(x, x, x, need_weights=need_weights, attn_mask=~seen)[0]
        model = nn.ModuleDict({"attend": nn.MultiheadAttention(8, 2, batch_first=True)}).eval()
        model["attend"].load_state_dict(inner.state_dict())
        graft(
            model,
            "attend",
            (SoftmaxReach if need_weights else FusedReach)(0, (4, 5), 3, 0),
            "reach",
            "around",
        )
        torch.testing.assert_close(model["attend"](x, x, x, need_weights=need_weights)[0], by_mask)
