import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vitscope.anatomy.watch.one_forward import ForwardWatch, main_output, scaled_dot_product_probabilities

SHAPE = (2, 4, 5, 8)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.randn(5, 5, dtype=torch.float64)},
        {"attn_mask": torch.rand(2, 1, 5, 5) > 0.3},
    ],
    ids=["plain", "causal", "scaled", "bias", "mask"],
)
def test_probabilities_of_the_fused_kernel(options):
    torch.manual_seed(0)
    q, k, v = (torch.randn(SHAPE, dtype=torch.float64) for _ in range(3))
    if options.get("attn_mask") is not None and options["attn_mask"].dtype == torch.bool:
        options["attn_mask"] = options["attn_mask"] | torch.eye(
            5, dtype=torch.bool
        )  # nobody attends to nothing
    weights = scaled_dot_product_probabilities(q, k, v, **options)
    assert torch.allclose(weights.sum(-1), torch.ones(SHAPE[:3], dtype=torch.float64))
    assert torch.allclose(weights @ v, F.scaled_dot_product_attention(q, k, v, **options), atol=1e-12)


def test_probabilities_of_grouped_queries():
    q = torch.randn(2, 6, 5, 8, dtype=torch.float64)
    k, v = (torch.randn(2, 2, 7, 8, dtype=torch.float64) for _ in range(2))
    weights = scaled_dot_product_probabilities(q, k, v, enable_gqa=True)
    wanted = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert torch.allclose(weights @ v.repeat_interleave(3, 1), wanted, atol=1e-12)


class Names(ForwardWatch):
    def __init__(self):
        super().__init__()
        self.names = []

    def operation(self, func, args, kwargs):
        self.names.append(func.__name__)
        return func(*args, **kwargs)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention_is_entered(need_weights):
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    wanted = attention(x, x, x, need_weights=need_weights)[0]
    with torch.no_grad(), Names() as watch:
        found = attention(x, x, x, need_weights=need_weights)[0]
    assert torch.allclose(found, wanted, atol=1e-6)
    assert ("softmax" if need_weights else "scaled_dot_product_attention") in watch.names
    assert "multi_head_attention_forward" not in watch.names


def test_main_output():
    class Output(dict):
        logits = torch.ones(2)

    assert main_output(Output(hidden=torch.zeros(3)))[0] is Output.logits
    assert [
        t.shape[0] for t in main_output({"a": torch.zeros(3), "b": [torch.zeros(4), torch.zeros(1).long()]})
    ] == [3, 4]
