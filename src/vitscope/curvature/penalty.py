"""The l2 part of the loss, whose Hessian is known without differentiating.

    half_square:  wd/2 sum_p ||p||^2 over the decayed parameters      H v = wd v on them
    norm:         wd   sum_p ||p||   over all parameters              H v = wd/||p|| (v - p^ (p^ . v)),  p^ = p / ||p||

The first is what weight decay of strength wd pulls on. The second is the unsquared sum that the code published with
"How Do Vision Transformers Work?" calls l2; its curvature falls as the weights grow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from timm.optim import param_groups_weight_decay
from torch import Tensor, nn

from vitscope.core.arguments import NotNegative, check
from vitscope.curvature.dots import dot, norm

Convention = Literal["half_square", "norm"]


@dataclass(frozen=True)
class Penalty:
    """Which l2 term is added to the loss.

    Attributes:
        weight_decay: Its factor; 0 leaves it out.
        convention: See the top of the file.
        decay_all: Whether every parameter is decayed; if not, biases, norms and what the model spares are not.
    """

    weight_decay: float = 0.0
    convention: Convention = "half_square"
    decay_all: bool = False

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
        spared: set[str] = getattr(model, "no_weight_decay", set)()
        groups = param_groups_weight_decay(model, 1.0, no_weight_decay_list=tuple(spared))
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
