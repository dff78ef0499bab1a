"""Second derivatives of the loss: products with the Hessian, and what they tell about it.

found = top_eigenvalues(model, images, labels, k=5)         # values, residuals, converged, products

with hessian_of(model, images, labels) as product:          # v -> H v
    lanczos(product, start, k=5)
    quadrature(product, probe, steps=40)
"""

from vitscope.curvature.density import Quadrature, quadrature, random_signs
from vitscope.curvature.lanczos import Eigenvalues, lanczos
from vitscope.curvature.loss import RandomModel
from vitscope.curvature.penalty import Penalty
from vitscope.curvature.power import power
from vitscope.curvature.product import HessianProduct, hessian_of
from vitscope.curvature.select import select_parameters
from vitscope.curvature.top import top_eigenvalues, trace_estimates

__all__ = [
    "Eigenvalues",
    "HessianProduct",
    "Penalty",
    "Quadrature",
    "RandomModel",
    "hessian_of",
    "lanczos",
    "power",
    "quadrature",
    "random_signs",
    "select_parameters",
    "top_eigenvalues",
    "trace_estimates",
]
