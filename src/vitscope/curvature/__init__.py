"""Second derivatives of the loss: products with the Hessian, and what they tell about it."""

from vitscope.curvature.lanczos import Eigenvalues, lanczos
from vitscope.curvature.loss import RandomModel
from vitscope.curvature.penalty import Penalty
from vitscope.curvature.product import HessianProduct, hessian_of
from vitscope.curvature.select import select_parameters
from vitscope.curvature.top import top_eigenvalues

__all__ = [
    "Eigenvalues",
    "HessianProduct",
    "Penalty",
    "RandomModel",
    "hessian_of",
    "lanczos",
    "select_parameters",
    "top_eigenvalues",
]
