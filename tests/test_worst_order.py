"""The tool itself: it adds up as it says, everywhere, and leaves float64 alone."""

import subprocess
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests import cases, invariants
from tests.comparing import compares_numbers
from tests.worst_order import ORDERS, added_up, rounding


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_one_after_another() -> None:
    numbers = draw(3, 500)
    for order, columns in (("sequential", range(500)), ("reversed", reversed(range(500)))):
        expected = np.zeros(3, dtype=np.float32)
        for i in columns:
            expected += numbers[:, i].numpy()
        with added_up(order):
            found = numbers.sum(1)
        assert found.tolist() == expected.tolist()


def test_small_terms_are_swallowed_only_where_the_order_lets_them() -> None:
    """1, and then 4096 terms of which a sum of 1 or more takes in none: 2^-24 each, together 2^-12."""
    terms = torch.full((4097,), 2.0**-24)
    terms[0] = 1.0
    ones = torch.ones(4097)
    for sum_of in (torch.Tensor.sum, lambda x: torch.dot(x, ones), lambda x: (x[None] @ ones[:, None])[0, 0]):
        found = {}
        for order in ORDERS:
            with added_up(order):
                found[order] = float(sum_of(terms))
        assert found["sequential"] == 1.0
        assert found["reversed"] == 1.0 + 2.0**-12
        assert 1.0 < found["blocks of 64"] <= 1.0 + 2.0**-12


def test_an_image_alone_and_in_a_batch() -> None:
    x, w = draw(5, 40), draw(40, 3, seed=1)
    with added_up("by shape"):
        assert not torch.equal(x @ w, torch.cat([row[None] @ w for row in x]))
    with added_up("sequential"):
        torch.testing.assert_close(x @ w, torch.cat([row[None] @ w for row in x]))


def test_passes_without_gradients_are_added_up_in_the_same_way() -> None:
    """In inference mode PyTorch hands over whole layers, not their products."""
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
    x = draw(4, 3, 8, 8)
    plain = layers(x)
    with added_up("by shape"):
        found = layers(x)
        with torch.inference_mode():
            assert torch.equal(layers(x), found)
    assert not torch.equal(found, plain)


def test_what_pytorch_refuses_is_refused() -> None:
    with added_up("sequential"), pytest.raises(RuntimeError):
        torch.nn.functional.linear(draw(2, 5), draw(4, 4))


CALCULATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "matrices": lambda x: x.flatten(1) @ x.flatten(1).T,
    "batches": lambda x: torch.baddbmm(x[:, 2], x[:, 0], x[:, 1].mT),
    "vectors": lambda x: x.flatten(1).mv(x[0].flatten()) + torch.dot(x[0].flatten(), x[1].flatten()),
    "linear": lambda x: F.linear(x, x[0, 0, :3], x[0, 0, 0, :3]),
    "convolution": lambda x: F.conv2d(x, x[:4, :2, :3, :3], x[0, 0, 0, :4], 2, 1, 1, groups=2),
    "dilated": lambda x: F.conv2d(x, x[:1, :, :3, :2], padding=(2, 1), dilation=2),
    "means": lambda x: x.mean((1, 3)) + x.sum() + x.mean(),
    "variances": lambda x: x.var((1, 3)) + x.std(1).mean(2) + torch.var_mean(x, 1, correction=0)[1].mean(2),
    "norms": lambda x: torch.linalg.vector_norm(x, dim=(1, 2)),
    "normalised": lambda x: F.layer_norm(x, x.shape[2:], x[0, 0], x[0, 1]),
    "softmax": lambda x: x.softmax(1) + x.log_softmax(3),
    "attention": lambda x: F.scaled_dot_product_attention(x, x.flip(2), x.flip(3), attn_mask=x[0, 0]),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CALCULATIONS)
def test_values_and_gradients_are_the_same_up_to_rounding(name: str, order: str) -> None:
    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone().requires_grad_()
        y = CALCULATIONS[name](x)
        (gradient,) = torch.autograd.grad(
            (y * torch.linspace(0.5, 2, y.numel()).view(y.shape).to(y)).sum(), x
        )
        return y.detach(), gradient

    x = draw(4, 4, 6, 6)
    expected = run(x.double())
    with added_up(order):
        found, untouched = run(x), run(x.double())
    for a, b, c in zip(found, expected, untouched, strict=True):
        assert torch.equal(b, c)
        # no sum has more than 4 * 4 * 6 * 6 terms, nor terms larger than a few times the largest result
        torch.testing.assert_close(a.double(), b, rtol=0, atol=rounding(576) * float(b.abs().max()))


def of_its_own() -> None:
    assert pytest.approx(0.3) == 0.1 + 0.2


def by_another() -> None:
    of_its_own()


def by_a_module() -> None:
    invariants.check_all(None, None, None)  # type: ignore[arg-type]


def with_another_process() -> None:
    assert subprocess.run(["true"], check=True).returncode == pytest.approx(0)


def by_nobody() -> None:
    assert cases.__name__.endswith("cases")


def test_tests_that_compare_numbers_are_known_by_their_lines_and_those_they_call() -> None:
    assert [compares_numbers(f) for f in (of_its_own, by_another, by_a_module, by_nobody)] == [True] * 3 + [
        False
    ]
