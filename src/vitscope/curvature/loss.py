"""What is differentiated: the loss of a batch, and the l2 term of weight decay.

The loss is the cross-entropy, with hard or soft targets, unless another `BatchLoss` is given (that of a task):

    NLL(w) = 1/N sum_n - sum_c t_nc log p_nc(w),        p = softmax of the model's class scores

The Hessian of the l2 term is known without differentiating:

    half_square:  wd/2 sum_p ||p||^2 over the decayed parameters      H v = wd v on them
    norm:         wd   sum_p ||p||   over all parameters              H v = wd/||p|| (v - p^ (p^ . v)),  p^ = p / ||p||

The first is what weight decay of strength wd pulls on. The second is the unsquared sum that the code published with
"How Do Vision Transformers Work?" calls l2; its curvature falls as the weights grow.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from timm.optim import param_groups_weight_decay
from torch import Tensor, nn

from vitscope.anatomy.watch.one_forward import tensors_in
from vitscope.core.arguments import NotNegative, check
from vitscope.core.errors import BadData, NotFinite, VitscopeError
from vitscope.core.outputs import class_scores
from vitscope.curvature.dots import dot, norm
from vitscope.models.spared import spared_from_decay

Convention = Literal["half_square", "norm"]
_SAME = 1e-4  # kernels may round differently from call to call; a random draw changes much more


class RandomModel(VitscopeError):
    """The model answers differently when asked twice, so that it has no one Hessian."""


class BatchLoss(Protocol):
    """The loss on a batch that is held, for whatever weights a model has."""

    what: str  # it is made of, in words

    def __len__(self) -> int:
        """How many images."""

    def outputs(self, model: nn.Module) -> Any:
        """What the model puts out for the batch; all that is drawn for it is the same at every call."""

    def total(self, model: nn.Module, outputs: Any) -> Tensor:
        """What that costs: the sum over the images."""


@dataclass(frozen=True, eq=False)
class CrossEntropy:
    """Of images (N, C, H, W) with labels (N,) or probabilities (N, classes)."""

    images: Tensor
    targets: Tensor
    what = "class scores"

    def __len__(self) -> int:
        return len(self.images)

    def outputs(self, model: nn.Module) -> Tensor:
        """The class scores."""
        return scores_of_images(model, self.images)

    def total(self, model: nn.Module, outputs: Tensor) -> Tensor:
        """See `BatchLoss`."""
        return cross_entropy(outputs, self.targets, 1)


def scores_of_images(model: nn.Module, images: Tensor) -> Tensor:
    """(N, classes): the class scores of a batch of images."""
    return scores_among(model, model(images), len(images))


def scores_among(model: nn.Module, output: Any, n_images: int) -> Tensor:
    """(N, classes) in what the model returned."""
    found = class_scores(model, output, n_images)
    if found.ndim != 2:
        raise VitscopeError(
            f"{type(model).__name__} puts out {tuple(found.shape)} for {n_images} images; expected class scores "
            "(N, classes), to which labels of images fit; scores of pixels fit to masks (--data coral, masks:PATH)"
        )
    return found


def cross_entropy(scores: Tensor, targets: Tensor, n_images: int | None = None) -> Tensor:
    """The sum over these images divided by `n_images` (default: their number)."""
    if targets.ndim == 1 and len(targets) == len(scores):
        if not 0 <= int(targets.min()) <= int(targets.max()) < scores.shape[1]:
            raise BadData(
                f"labels reach from {int(targets.min())} to {int(targets.max())}, the model has {scores.shape[1]} "
                f"classes; expected 0 to {scores.shape[1] - 1}"
            )
    elif targets.shape != scores.shape:
        raise BadData(
            f"targets are {tuple(targets.shape)} for class scores {tuple(scores.shape)}; expected labels "
            f"({len(scores)},) or probabilities {tuple(scores.shape)}"
        )
    if targets.is_floating_point():
        targets = targets.to(scores)
    return F.cross_entropy(scores, targets, reduction="sum") / (n_images or len(scores))


@torch.no_grad()
def check_deterministic(model: nn.Module, loss: BatchLoss) -> None:
    """Refuse a model whose answer is drawn anew at every call (dropout that stays on, random depth)."""
    first, second = (list(numbers_in(loss.outputs(model))) for _ in range(2))
    scales = [float(numbers.abs().max()) for numbers in first]
    scale = max(scales)
    if not all(map(math.isfinite, scales)):
        raise NotFinite(
            f"the {loss.what} of {type(model).__name__} are not finite; check the weights and the images"
        )
    difference = max(float((one - other).abs().max()) for one, other in zip(first, second, strict=True))
    if scale > 0.0 and difference <= _SAME * scale:
        return
    where = _where(model, loss)
    if not where and scale == 0.0:  # a head of zeros, as some are initialised, hides what comes before it
        return
    raise RandomModel(
        f"two passes of {type(model).__name__} over the same images differ by {difference:.2g} ({loss.what} "
        f"reach {scale:.2g}){where}; a Hessian needs a model without random draws in evaluation mode: "
        "switch them off, or fix their seed inside the model"
    )


def numbers_in(outputs: Any) -> Iterable[Tensor]:
    """The tensors of what a model said that hold numbers, empty ones left out."""
    return (tensor for tensor in tensors_in(outputs) if tensor.is_floating_point() and tensor.numel())


def _where(model: nn.Module, loss: BatchLoss) -> str:
    """Which innermost module is the first to differ, in words."""
    names = {module: name for name, module in model.named_modules() if not list(module.children())}
    traces: list[list[tuple[str, float]]] = []

    def note(module: nn.Module, _: object, output: object) -> None:
        value = sum(float(t.double().abs().sum()) for t in tensors_in(output) if t.is_floating_point())
        traces[-1].append((names[module], value))

    with ExitStack() as hooks:
        for module in names:
            hooks.callback(module.register_forward_hook(note).remove)
        for _ in range(2):
            traces.append([])
            loss.outputs(model)
    for (name, one), (_, other) in zip(*traces, strict=False):
        if abs(one - other) > 1e-5 * abs(one):
            return f", first after '{name}'"
    return ""


@dataclass(frozen=True)
class Penalty:
    """Which l2 term is added to the loss."""

    weight_decay: float = 0.0  # its factor; 0 leaves it out
    convention: Convention = "half_square"
    decay_all: bool = False  # if not, biases, norms, tokens and position embeddings are not decayed

    def __post_init__(self) -> None:
        check(self.weight_decay, NotNegative, "weight_decay")
        check(self.convention, Convention, "l2")
        check(self.decay_all, bool, "decay_all")

    def covered(self, model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> list[int]:
        """Places of the parameters that the term is about."""
        if self.weight_decay == 0.0:
            return []
        if self.convention == "norm" or self.decay_all:
            return list(range(len(parameters)))
        groups = param_groups_weight_decay(model, 1.0, no_weight_decay_list=spared_from_decay(model))
        decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
        return [i for i, p in enumerate(parameters.values()) if id(p) in decayed]

    def add_product(self, parameter: Tensor, vector: Tensor, product: Tensor) -> None:
        """Add the term's part of H v for one covered parameter; the two vectors are flat, the last one changes."""
        if self.convention == "half_square":
            product.add_(vector, alpha=self.weight_decay)
            return
        flat = parameter.detach().reshape(-1)
        length = norm(flat)
        if length == 0.0:  # the kink of the norm: it has no curvature there
            return
        along = dot(flat, vector) / length**2
        product.add_(vector, alpha=self.weight_decay / length)
        product.add_(flat, alpha=-self.weight_decay * along / length)

    def value(self, parameter: Tensor) -> float:
        """The term's value for one covered parameter."""
        length = norm(parameter.detach().reshape(-1))
        return self.weight_decay * (length if self.convention == "norm" else 0.5 * length**2)
