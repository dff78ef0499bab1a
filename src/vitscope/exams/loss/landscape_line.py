"""The loss on the line between two models of the same structure, such as two checkpoints.

    L(t) = NLL(w(t)) + l2(w(t)),      w(t) = (1 - t) w_0 + t w_1,      0 <= t <= 1

All parameters are moved, and the statistics of batch norms with them, so that the ends are the two models themselves.
The excess over the chord, image by image,

    e(t) = 1/n sum_i [ NLL_i(t) - (1 - t) NLL_i(0) - t NLL_i(1) ]

is positive where a barrier lies between them; the barrier is its largest value.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import preserved
from vitscope.core.arguments import NotNegative
from vitscope.curvature.loss import Convention
from vitscope.curvature.plane import Plane, PlanePenalty
from vitscope.engine.held_batches import find_recipe, penalty_of
from vitscope.engine.held_loss import BatchNorm, HeldLoss, Place, summarise, visit
from vitscope.engine.landscape_axes import Other, Points, difference, other_name, state_of
from vitscope.engine.memory_format import MemoryFormat
from vitscope.engine.own_passes import placed
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import takes_interface
from vitscope.findings.landscape_line import LandscapeLineResult
from vitscope.models import name_of
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import random_state_preserved


@takes_interface
def landscape_line(
    model: nn.Module,
    other: Other,
    data: Any,
    points: Points = 21,
    weight_decay: NotNegative = 5e-2,
    l2: Convention = "half_square",
    recipe: str | Recipe | None = "auto",
    batch_norm: BatchNorm = "kept",
    limit: int | None = 512,
    batch_size: int = 128,
    memory_format: MemoryFormat = "auto",
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    parts: PartialResults | None = None,
) -> LandscapeLineResult:
    """The loss on the line from `model` to `other`, a model of the same structure or a run folder of one.

    `landscape` documents the other arguments. Statistics of batch norms that are "kept" lie on the line, too.
    """
    recipe = find_recipe(recipe, data)
    penalty, parts = penalty_of(recipe, weight_decay, l2), parts or PartialResults()
    with preserved(model), random_state_preserved(), placed(model, device), parts:
        loss = HeldLoss(model, data, limit, batch_size, recipe, batch_norm, seed)
        with loss.arranged(memory_format, parts):
            state = model.state_dict(keep_vars=True)  # the model's own parameters and kept buffers, no copies
            own = {k: t for k, t in state.items() if isinstance(t, Tensor) and t.is_floating_point()}
            tensors, direction = list(own.values()), difference(own, state_of(other), other_name(other))
            on_line = PlanePenalty(model, penalty, tensors, [direction])
            with Plane(tensors, [direction]) as line, loss.statistics_restored():
                ends = []
                for end in (0.0, 1.0):
                    line.move(end)
                    ends.append(loss.of_a_model())

                def chord(place: Place) -> Tensor:
                    return (1.0 - place[0]) * ends[0].nll + place[0] * ends[1].nll

                t = np.linspace(0.0, 1.0, points)
                heading = f"{name or name_of(model)}: landscape_line"
                sums = visit(loss, line, [(float(one),) for one in t], chord, parts, heading)
        found = summarise(sums, ends[0].counted.numpy(), loss.task.yes_or_no)
        found["excess"] = found.pop("rise")
        parameters = {id(parameter) for parameter in model.parameters()}
        steps = [d for tensor, d in zip(tensors, direction, strict=True) if id(tensor) in parameters]
        return LandscapeLineResult(
            **loss.about(name, data, penalty),
            other=other_name(other),
            t=t,
            **found,
            l2=np.array([on_line(float(one)) for one in t]),
            distance=float(torch.stack([d.double().square().sum() for d in steps]).sum().sqrt()),
        )
