"""Hessian-vector products with the gradient's graph built once.

    H v = d/dw (g(w) . v),        g = dNLL/dw

One forward and one backward pass leave a graph of g; every product is one backward pass through it, about twice the
cost of a forward and backward pass of the model. Rebuilding the graph for every product would cost half as much again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitscope.anatomy import Anatomy, preserved
from vitscope.anatomy.watch.example import refuse_compiled
from vitscope.core import distributed
from vitscope.core.arguments import checked
from vitscope.core.errors import NotFinite, VitscopeError
from vitscope.core.tensors import give_back
from vitscope.curvature.double_backward import TwiceDifferentiable
from vitscope.curvature.loss import BatchLoss, CrossEntropy, Penalty, check_deterministic
from vitscope.curvature.parameters import select_parameters

_TYPES = (torch.float32, torch.float64)
_DEAD_ENDS = ("torch::autograd::Error", "torch::autograd::NotImplemented")


class HessianProduct:
    """The Hessian of one batch, as something that multiplies flat vectors of `size` entries; made by `hessian_of`.

    `parameters` are by name, in the order in which a vector holds them; `nll` is the loss without the l2 term,
    `penalty` the value of that; `count` is of the products made so far.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: BatchLoss,
        parameters: Mapping[str, nn.Parameter],
        penalty: Penalty,
        split: bool,
    ) -> None:
        self.parameters = dict(parameters)
        self.dtype, self.device = _common_type(self.parameters)
        self._tensors = list(parameters.values())
        self._lengths = [p.numel() for p in self._tensors]
        self.size = sum(self._lengths)
        self.count = 0
        self._split = split and distributed.world_size() > 1
        self._l2 = penalty
        self._decayed = penalty.covered(model, parameters)
        self.penalty = sum(penalty.value(self._tensors[i]) for i in self._decayed)

        n_images = int(self._over_ranks(torch.tensor([len(batch)])))
        with TwiceDifferentiable():
            outputs = batch.outputs(model)
        loss = batch.total(model, outputs) / n_images
        self.nll = float(self._over_ranks(loss.detach().reshape(1)))
        self._gradients = _gradients(loss, self._tensors)
        # a gradient that is missing, or the same for all weights, has no second derivative
        self._curved = {i: g for i, g in enumerate(self._gradients) if g is not None and g.requires_grad}
        if not bool(torch.isfinite(self.gradient()).all()):
            raise NotFinite(
                f"the loss is {self.nll:g} and its gradient is not finite; check the weights and the images"
            )
        give_back(self.device)

    def __call__(self, vector: Tensor) -> Tensor:
        """H v, as a new flat vector."""
        self.count += 1
        parts = vector.split(self._lengths)
        found: Sequence[Tensor | None] = [None] * len(self._tensors)
        if self._curved:
            along = [parts[i].view_as(self._tensors[i]) for i in self._curved]
            curved = list(self._curved.values())
            found = torch.autograd.grad(curved, self._tensors, along, retain_graph=True, allow_unused=True)
        product = self._over_ranks(self._flat(found))
        pieces = product.split(self._lengths)
        for i in self._decayed:
            self._l2.add_product(self._tensors[i], parts[i], pieces[i])
        return product

    def gradient(self) -> Tensor:
        """The gradient of the NLL, as a new flat vector; if processes share the batch, all of them have to ask."""
        return self._over_ranks(self._flat([None if g is None else g.detach() for g in self._gradients]))

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """A flat vector cut into the parameters it is made of."""
        parts = vector.split(self._lengths)
        return {name: part.view_as(p) for (name, p), part in zip(self.parameters.items(), parts, strict=True)}

    def _flat(self, parts: Sequence[Tensor | None]) -> Tensor:
        zipped = zip(parts, self._tensors, strict=True)
        return torch.cat([(torch.zeros_like(p) if part is None else part).reshape(-1) for part, p in zipped])

    def _over_ranks(self, part: Tensor) -> Tensor:
        """The sum over the processes that share the batch."""
        if self._split:
            distributed.all_reduce(part)
        return part


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The gradient, with the graph that it can be differentiated by.

    An operation that has no second derivative is an end of that graph. torch leaves out what leads to no parameter, so
    it would not complain, and products would lack a part.
    """
    if not loss.requires_grad:
        return [None] * len(parameters)
    found = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
    nodes = [g.grad_fn for g in found if g is not None and g.grad_fn is not None]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        if node.name() in _DEAD_ENDS:
            raise RuntimeError(f"an operation has no second derivative: {node.name()}")
        following = {after for after, _ in node.next_functions if after is not None} - seen
        seen |= following
        nodes += following
    return found


@checked
@contextmanager
def hessian_of(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    params: str | None = None,
    penalty: Penalty | None = None,
    parts: Anatomy | None = None,
    split: bool = False,
) -> Iterator[HessianProduct]:
    """The Hessian of NLL + l2 on one batch, in evaluation mode; the model is left as it was found.

    Args:
        model: Any classifier.
        images: (N, C, H, W), as the model takes them, on its device.
        targets: (N,) labels or (N, classes) probabilities.
        params: Which parameters; see `select_parameters`.
        penalty: The l2 term; default: none.
        parts: The model's anatomy, for `params="kind:..."`.
        split: Whether every process holds a part of the batch; products are then summed over processes.

    Raises:
        RandomModel: The model draws random numbers in evaluation mode.
    """
    dtype = next(iter(select_parameters(model, params, parts).values())).dtype
    batch = CrossEntropy(images.to(dtype), targets)
    with hessian_of_loss(model, batch, params=params, penalty=penalty, parts=parts, split=split) as product:
        yield product


@contextmanager
def hessian_of_loss(
    model: nn.Module,
    batch: BatchLoss,
    *,
    params: str | None = None,
    penalty: Penalty | None = None,
    parts: Anatomy | None = None,
    split: bool = False,
) -> Iterator[HessianProduct]:
    """The same of any loss, whose numbers are of the model's type; `hessian_of` documents the arguments.

    Fused attention has no second derivative, so attention runs in its plain form inside.
    """
    refuse_compiled(model)  # its first derivative would be right, its second one not
    chosen = select_parameters(model, params, parts)
    taken = {id(p) for p in chosen.values()}
    device = next(iter(chosen.values())).device
    with (
        preserved(model),
        sdpa_kernel(SDPBackend.MATH),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in taken)
        check_deterministic(model, batch)
        with _explained(model):
            yield HessianProduct(model, batch, chosen, penalty or Penalty(), split)


@contextmanager
def _explained(model: nn.Module) -> Iterator[None]:
    """Say in our words what torch says when memory or a second derivative is missing."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise VitscopeError(
            "the gradient's graph does not fit into memory; use split_batch=True with torchrun "
            "(in Python also a smaller batch_size)"
        ) from error
    except RuntimeError as error:
        if "derivative" not in str(error) and "not implemented" not in str(error):
            raise
        reason = str(error).splitlines()[0]
        raise VitscopeError(
            f"{type(model).__name__} cannot be differentiated twice ({reason}); replace that operation by a plain one"
        ) from error


def _common_type(parameters: Mapping[str, nn.Parameter]) -> tuple[torch.dtype, torch.device]:
    first = next(iter(parameters.values()))
    for name, parameter in parameters.items():
        if parameter.dtype not in _TYPES or parameter.dtype != first.dtype:
            raise VitscopeError(
                f"parameter '{name}' is {parameter.dtype}; a Hessian needs float32 or float64 throughout: model.float()"
            )
        if parameter.device != first.device:
            raise VitscopeError(
                f"parameters are on {first.device} and {parameter.device}; put the model on one device: model.to(...)"
            )
    return first.dtype, first.device
