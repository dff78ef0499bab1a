"""Loss landscape: how does the training loss change around the weights?

    L(x, y) = NLL(w + x a + y b) + l2(w + x a + y b),      l2 = wd/2 sum ||p||²  over the decayed parameters p

on a grid, along two directions a and b (see `curvature.plane`) of the filters that the image's data is multiplied
by (see `curvature.moved`). NLL is the loss of the task that the data is for; NLL, l2 and accuracy (of images, pixels or
answers; NaN for objects) are kept apart. All points see the same images and the same draw of their augmentation, in
evaluation mode. What Mask R-CNN selects is selected anew at every point, with the same draws, as in its training: the
loss may jump a little where another box is taken. Beside the NLL stands its rise over the centre, image by image:

    rise(x, y) = 1/n sum_i [ NLL_i(x, y) - NLL_i(0, 0) ]
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from vitscope.anatomy import preserved
from vitscope.core.arguments import NotNegative, Positive
from vitscope.curvature.loss import Convention
from vitscope.curvature.parameters import moved_parameters
from vitscope.curvature.plane import Normalisation, Plane, PlanePenalty
from vitscope.engine.exam import procedure
from vitscope.engine.held_batches import find_recipe, penalty_of, training_split
from vitscope.engine.held_loss import BatchNorm, HeldLoss, score, summarise, visit
from vitscope.engine.landscape_axes import Directions, Other, Points, choose_axes, find_near
from vitscope.engine.memory_format import MemoryFormat
from vitscope.engine.own_passes import placed
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import takes_interface
from vitscope.findings.landscape import Centre, LandscapeResult
from vitscope.models import name_of
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import random_state_preserved


@takes_interface
def landscape(
    model: nn.Module,
    data: Any,
    points: Points = 21,
    span: Positive | None = None,
    directions: Directions = "random",
    normalisation: Normalisation = "filter",
    weight_decay: NotNegative = 5e-2,
    l2: Convention = "half_square",
    recipe: str | Recipe | None = "auto",
    batch_norm: BatchNorm = "kept",
    run: str | os.PathLike[str] | None = None,
    others: Sequence[Other] = (),
    limit: int | None = 512,
    batch_size: int = 128,
    memory_format: MemoryFormat = "auto",
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    parts: PartialResults | None = None,
) -> LandscapeResult:
    """The loss landscape of `model` on the augmented training set.

    Under torchrun the points are shared out over the processes, and all return the same result. The weights are put
    back bit by bit, also after an error or Ctrl-C.

    Args:
        points: Grid points along each direction.
        span: The grid reaches from -span to span; default: 1, or for "pca" as far as the marks and a bit more.
        directions: "random", "pca" (the plane nearest to the checkpoints of `run` and to `others`: with two others it
            goes through both), or "hessian" (the two steepest directions; length 1).
        normalisation: Of random directions: "filter", or "dim0" as in the published code.
        weight_decay: Factor of the l2 term.
        l2: "half_square", or "norm" for the unsquared norm of the published code (see `curvature.loss`).
        recipe: Whose augmentation, mixing and label smoothing is drawn, once for all points (see `hessian`).
        batch_norm: Statistics of batch norms: "kept", or "estimated" anew at every point (twice the time).
        run: A run folder of the model, whose checkpoints are marked on the landscape.
        others: Models of the same structure, or run folders, to be marked.
        limit: How many images, with the class shares of the whole; None takes all. The last batch may be short.
        batch_size: Images per pass, and per mixed batch.
        memory_format: Order of maps in memory: "contiguous", "channels_last", or "auto": what is faster.
        seed: Of the images, the augmentation and the directions.
    """
    recipe = find_recipe(recipe, data)
    penalty, parts = penalty_of(recipe, weight_decay, l2), parts or PartialResults()
    with preserved(model), random_state_preserved(), placed(model, device), parts:
        loss = HeldLoss(model, data, limit, batch_size, recipe, batch_norm, seed)
        with loss.arranged(memory_format, parts), loss.statistics_restored():
            moved = moved_parameters(model, tuple(loss.batches[0].images.shape[1:]))
            tensors = {m.name: m.parameter for m in moved}
            near = find_near(tensors, run, others)
            axes = choose_axes(
                model, directions, normalisation, moved, near, loss, penalty, span, points, seed
            )
            on_plane = PlanePenalty(model, penalty, list(tensors.values()), axes.directions)
            with Plane(list(tensors.values()), axes.directions) as plane:
                own = loss.of_a_model()
                places = [(float(x), float(y)) for y in axes.y for x in axes.x]
                heading = f"{name or name_of(model)}: landscape"
                sums = visit(loss, plane, places, lambda _: own.nll, parts, heading)
        sums = sums.reshape(len(axes.y), len(axes.x), -1)
        counts = own.counted.numpy(), loss.task.yes_or_no
        centre = summarise(score(own, own.nll).numpy(), *counts)
        return LandscapeResult(
            **loss.about(name, data, penalty),
            x=axes.x,
            y=axes.y,
            **summarise(sums, *counts),
            l2=np.array([on_plane(*place) for place in places]).reshape(sums.shape[:2]),
            centre=Centre(centre["nll"].each(float), centre["accuracy"].each(float), on_plane()),
            directions=directions,
            normalisation=normalisation if directions == "random" else "none",
            explained=axes.explained,
            eigenvalues=axes.eigenvalues,
            residuals=axes.residuals,
            marks=tuple(one.mark(axes.directions) for one in near),
            moved=tuple(tensors),
            moved_numbers=sum(tensor.numel() for tensor in tensors.values()),
            parameters=sum(parameter.numel() for parameter in model.parameters()),
        )


@procedure(
    LandscapeResult,
    costly=True,
    batch_matters=True,
    resumable=True,
    needs_labels=True,
    or_task=True,
    options=landscape,
)
def landscape_of_training_images(
    model: nn.Module, data: Any, limit: int | None = None, **options: Any
) -> LandscapeResult:
    """What `diagnose` runs: 512 images, or `limit`; of named data, the training split."""
    return landscape(model, training_split(data), limit=512 if limit is None else limit, **options)
