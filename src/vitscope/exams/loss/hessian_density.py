"""Spectral density and trace of the Hessian: where all of its eigenvalues lie, not only the largest.

    density(t) = 1/P sum_i δ(t - λ_i),         trace = sum_i λ_i

Both are estimated from products with random vectors (`curvature.spectrum`): every batch gets a vector of its own, so
that the interval over batches holds the spread of the batches and the error of the estimate together. The density is
drawn with each point widened to a normal distribution of standard deviation `width`.

The trace is unbiased for any number of steps. Of the share of eigenvalues below -width the steps give bounds (see
`curvature.spectrum`): its value is their middle, and its interval reaches from the lower end of the interval of the
lower bounds to the upper end of that of the upper bounds. It gets narrower with more steps and with more batches.

What a vector of random signs finds of a share s of P eigenvalues is v'Av / P, with a projection A of rank sP. Its
variance, 2 (sP - sum_i A_ii^2) / P^2, is at most 2 s(1-s) / P: that of a share of P/2 yes-or-no answers. A few vectors
may agree by chance, and more so where they find too little: the interval never takes their error for less than that.
Batches may differ by far more than vectors do, most with a small share and a few with a large one: the upper end
is that of an error that grows with the share itself, where this is further out (`mean_share_interval`). With fewer than
six batches, a share that only rare batches have may lie above it still.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from vitscope.core.arguments import Count, NotNegative
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import Estimate, mean_interval, mean_share_interval
from vitscope.curvature import HessianProduct, Quadrature, quadrature, random_signs
from vitscope.curvature.lanczos import OnStep
from vitscope.curvature.loss import Convention
from vitscope.engine.curvature_passes import CurvatureSetup, curvature_passes
from vitscope.engine.exam import Rows
from vitscope.engine.held_batches import find_recipe, penalty_of
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import takes_interface
from vitscope.findings.hessian_density import HessianDensityResult
from vitscope.recipes.recipe import Recipe

POINTS = 401
WIDTH = 0.01  # of the range of eigenvalues


@takes_interface
def hessian_density(
    model: nn.Module,
    data: Any,
    steps: Count = 40,
    batch_size: int = 16,
    batches: Count = 8,
    weight_decay: NotNegative = 5e-2,
    l2: Convention = "half_square",
    params: str | None = None,
    recipe: str | Recipe | None = "auto",
    split_batch: bool = False,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    parts: PartialResults | None = None,
) -> HessianDensityResult:
    """The density of eigenvalues and the trace, from `steps` products per batch; `hessian` documents the others."""
    if steps < 2:
        raise VitscopeError(f"steps is {steps}; expected at least 2")
    recipe = find_recipe(recipe, data)
    setup = CurvatureSetup(
        batch_size, batches, penalty_of(recipe, weight_decay, l2), params, recipe, split_batch, seed
    )
    with curvature_passes(model, data, setup, device, name) as passes:

        def probe(number: int, product: HessianProduct, on_step: OnStep) -> dict[str, np.ndarray]:
            signs = random_signs(product.size, product.gradient(), seed * 1_000_003 + number)
            found = quadrature(product, signs, steps, on_step)
            missing = (0, steps - len(found.nodes))  # a batch may have fewer; they weigh nothing
            return {"nodes": np.pad(found.nodes, missing), "weights": np.pad(found.weights, missing)}

        rows = Rows(nodes=(batches, steps), weights=(batches, steps))
        found = passes.measure("hessian density", rows, parts or PartialResults(), steps, probe)
        return _result(found, passes.about)


def _result(found: dict[str, np.ndarray], about: dict[str, Any]) -> HessianDensityResult:
    nodes, weights = found["nodes"], found["weights"]
    present = nodes[weights > 0]
    span = max(float(present.max() - present.min()), 1e-12)
    width = WIDTH * span
    grid = np.linspace(present.min() - 0.05 * span, present.max() + 0.05 * span, POINTS)
    smooth = np.stack([Quadrature(n, w).smoothed(grid, width) for n, w in zip(nodes, weights, strict=True)])
    traces = about["parameters"] * (nodes * weights).sum(1)
    bounds = np.array([Quadrature(n, w).below(-width) for n, w in zip(nodes, weights, strict=True)])
    fields: dict[str, Any] = {**about, **found, "grid": grid, "width": width}
    value, low, high = _over_batches(smooth)
    fields |= {"value": value, "low": np.maximum(low, 0.0), "high": high}  # a density does not reach below 0
    low, high = mean_share_interval(bounds, about["parameters"] / 2)
    negative = Estimate(bounds.mean(), low[0], high[1]).each(float)
    return HessianDensityResult(**fields, trace=_over_batches(traces).each(float), negative=negative)


def _over_batches(numbers: np.ndarray) -> Estimate[np.ndarray]:
    """Mean over batches (first axis) and its interval."""
    return mean_interval(numbers.sum(0), (numbers**2).sum(0), len(numbers))
