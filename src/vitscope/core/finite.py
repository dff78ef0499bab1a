"""Whether numbers are finite, looked up cheaply, and which weights of a model are not."""

import torch
from torch import Tensor, nn


def checksum(numbers: Tensor) -> Tensor:
    """A single number that is finite only if all are; it may be infinite for numbers that are finite but huge."""
    few_digits = numbers.dtype in (torch.float16, torch.bfloat16)
    return numbers.sum(dtype=torch.float32 if few_digits else None)


def all_finite(numbers: Tensor) -> bool:
    """Whether none is NaN or infinite: in one reading, which is made exact only if there is a doubt."""
    return bool(checksum(numbers).isfinite()) or bool(numbers.isfinite().all())


def images_not_finite(numbers: Tensor) -> Tensor:
    """(N,) bool: the entries along the first axis that hold a number that is not finite."""
    return ~numbers.isfinite().flatten(1).all(1)


def weights_not_finite(model: nn.Module) -> dict[str, int]:
    """How many numbers are not finite, by the name of the parameter or running statistic; without those that have none.

    Other buffers are no weights: a mask may well hold minus infinity.
    """
    statistics = {n: b for n, b in model.named_buffers() if n.endswith(("running_mean", "running_var"))}
    own = {**dict(model.named_parameters()), **statistics}
    floating = {name: tensor.detach() for name, tensor in own.items() if tensor.is_floating_point()}
    return {name: int((~t.isfinite()).sum()) for name, t in floating.items() if not all_finite(t)}
