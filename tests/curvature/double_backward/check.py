"""Compare an operation with torch's own: value, gradient, and the derivative of the gradient along random vectors."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

Operation = Callable[..., Tensor]


def same_as_torch(ours: Operation, theirs: Operation, *tensors: Tensor) -> None:
    """For every choice of which tensors have a gradient at all, in float64."""
    for learns in itertools.product([True, False], repeat=len(tensors)):
        if any(learns):
            found, expected = (_derivatives(operation, tensors, learns) for operation in (ours, theirs))
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def _derivatives(operation: Operation, tensors: tuple[Tensor, ...], learns: tuple[bool, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)

    def drawn(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64)

    leaves = [t.detach().clone().requires_grad_(learn) for t, learn in zip(tensors, learns, strict=True)]
    chosen = [leaf for leaf in leaves if leaf.requires_grad]
    y = operation(*leaves)
    weights = drawn(y).requires_grad_()
    first = torch.autograd.grad((y.square() * weights).sum(), chosen, create_graph=True)
    along = [drawn(g) for g in first]
    second = torch.autograd.grad(first, [*chosen, weights], along, allow_unused=True, retain_graph=True)
    again = torch.autograd.grad(first, [*chosen, weights], along, allow_unused=True)
    assert all(torch.equal(a, b) for a, b in zip(second, again, strict=True) if a is not None)
    everything = [*first, *second]
    return [y.detach(), *(torch.zeros(()) if t is None else t.detach() for t in everything)]
