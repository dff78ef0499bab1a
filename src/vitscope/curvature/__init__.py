"""Second derivatives of the loss: products with the Hessian, and what they tell about it.

found = top_eigenvalues(model, images, labels, k=5)         # values, residuals, converged, products

with hessian_of(model, images, labels) as product:          # v -> H v
    lanczos(product, start, k=5)
    quadrature(product, probe, steps=40)
"""

from vitscope.curvature.lanczos import Eigenvalues, lanczos
from vitscope.curvature.loss import BatchLoss, CrossEntropy, Penalty, RandomModel
from vitscope.curvature.parameters import select_parameters
from vitscope.curvature.product import HessianProduct, hessian_of, hessian_of_loss
from vitscope.curvature.spectrum import (
    Quadrature,
    power,
    quadrature,
    random_signs,
    top_eigenvalues,
    trace_estimates,
)

__all__ = [
    "BatchLoss",
    "CrossEntropy",
    "Eigenvalues",
    "HessianProduct",
    "Penalty",
    "Quadrature",
    "RandomModel",
    "hessian_of",
    "hessian_of_loss",
    "lanczos",
    "power",
    "quadrature",
    "random_signs",
    "select_parameters",
    "top_eigenvalues",
    "trace_estimates",
]
