"""Hessian max eigenvalue spectrum: is the loss convex around the weights, and how steep?

For each mini-batch of the augmented training set, the k eigenvalues of largest magnitude, with sign, of

    H = d²/dw² [ NLL(w) + l2(w) ],        l2 = wd/2 sum ||p||²  over the decayed parameters p

in evaluation mode. NLL is the loss of the task that the data is for, its mean over the images of the batch (`tasks/`).
What Mask R-CNN selects at w (proposals, and which of them are compared with which object) is held: its loss is made of
boxes that torchvision does not differentiate, so that H is that of the loss with these boxes.

The spectrum is the collection of all of them. Two numbers sum it up:

    NEP = share of negative values             (how far from convex)
    APE = mean of the positive values          (how sharp)

Their intervals are over batches (`results/loss_numbers.py`).
"""

from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from vitscope.core import distributed
from vitscope.core.arguments import Count, Fraction, NotNegative
from vitscope.core.errors import warn
from vitscope.curvature import HessianProduct, lanczos, power
from vitscope.curvature.lanczos import MAX_PRODUCTS, OnStep
from vitscope.curvature.loss import Convention
from vitscope.engine.curvature_passes import CurvatureSetup, curvature_passes
from vitscope.engine.exam import Rows, procedure
from vitscope.engine.held_batches import find_recipe, penalty_of, training_split
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import takes_interface
from vitscope.findings.hessian import HessianResult
from vitscope.recipes.recipe import Recipe
from vitscope.results.loss_numbers import summed_up

Mode = Literal["lanczos", "power"]


@takes_interface
def hessian(
    model: nn.Module,
    data: Any,
    k: Count = 5,
    batch_size: int = 16,
    batches: Count = 8,
    weight_decay: NotNegative = 5e-2,
    tol: Fraction = 1e-3,
    l2: Convention = "half_square",
    params: str | None = None,
    mode: Mode = "lanczos",
    recipe: str | Recipe | None = "auto",
    max_products: Count = MAX_PRODUCTS,
    split_batch: bool = False,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    parts: PartialResults | None = None,
) -> HessianResult:
    """The Hessian max eigenvalue spectrum of `model` on mini-batches of the augmented training set.

    Under torchrun the batches are shared out over the processes, and all return the same result.

    Args:
        model: Any model of the data's task without random draws in evaluation mode; it is left as it was found.
        data: The training images: what `load_data` gives, of whichever task; a Dataset of pictures with labels; or
            images that are prepared already (a pair of tensors, a DataLoader), which are then only mixed. A subset with
            the class shares of the whole is taken, in random order; of a DataLoader the first images, in its own order.
        k: Eigenvalues per batch.
        batch_size: Images per batch; the spectrum depends on it. The images of a DataLoader are put together to
            batches of this size, whatever its own is.
        batches: How many batches.
        weight_decay: Factor of the l2 term.
        tol: Wanted residual ||H v - λ v|| / |λ|.
        l2: "half_square", or "norm" for the unsquared norm of the published code (see `curvature.loss`).
        params: Over these parameters only: "layer4", "blocks.*.attn", "kind:msa"; default: all that learn.
        mode: "lanczos", or "power" for the answers that PyHessian's power iteration gives.
        recipe: Whose augmentation, mixing and label smoothing is drawn, once per batch, and which says what parameters
            are decayed; None takes the images as for evaluation and decays all. "auto": that of the task, which is
            "hdv" for images with labels, "dense" for pixels and objects, "vqa-mini" for questions.
        max_products: Stop a batch after so many products even if it has not converged.
        split_batch: Split each batch over the processes instead, where one is too large for one.
        seed: Of the batches, the augmentation, the start vectors and the bootstrap.
        device: Where to run; default: where the model is.
        name: What to call the model in the result.
        parts: Where what is finished is kept.
    """
    recipe = find_recipe(recipe, data)
    penalty = penalty_of(recipe, weight_decay, l2)
    setup = CurvatureSetup(batch_size, batches, penalty, params, recipe, split_batch, seed)
    with curvature_passes(model, data, setup, device, name) as passes:

        def search(number: int, product: HessianProduct, on_step: OnStep) -> dict[str, Any]:
            start = passes.start(number, product)
            if mode == "power":
                values = power(product, start, k, tol, seed=number, on_step=on_step)
            else:
                values = lanczos(product, start, k, tol, max_products, on_step=on_step)
            found = {name: getattr(values, name) for name in ("residuals", "converged", "products")}
            return {**found, "eigenvalues": values.values, "nll": product.nll, "l2": product.penalty}

        shapes = dict.fromkeys(("eigenvalues", "residuals", "converged"), (batches, k))
        rows = Rows(**shapes, **dict.fromkeys(("products", "nll", "l2"), (batches,)))
        found = passes.measure("hessian", rows, parts or PartialResults(), 5 * k, search)
    found |= {"converged": found["converged"] > 0, "products": found["products"].astype(np.int64)}
    found |= summed_up(found["eigenvalues"], seed)
    result = HessianResult(**passes.about, mode=mode, tol=tol, **found)
    if result.unconverged and distributed.is_main():
        warn(
            f"{result.unconverged} of {result.converged.size} eigenvalues did not reach a residual of {result.tol:g} "
            f"(worst {result.residuals.max():.2g}): raise max_products, or take them as rough"
        )
    return result


@procedure(HessianResult, costly=True, resumable=True, needs_labels=True, or_task=True, options=hessian)
def hessian_of_training_images(
    model: nn.Module, data: Any, limit: int | None = None, batch_size: int = 128, **options: Any
) -> HessianResult:
    """What `diagnose` runs: 8 batches of 16, fewer if `limit` does not reach; of named data, the training split.

    The batch size of `diagnose` is that of forward passes, while that of a spectrum is a part of its definition.
    """
    batches = 8 if limit is None else min(8, max(1, limit // 16))
    return hessian(model, training_split(data), **{"batches": batches, **options})
