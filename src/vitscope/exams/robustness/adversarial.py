"""Adversarial attacks: how far must each pixel move until the model is wrong?

    FGSM    x' = P(x + eps sign(g))                     g = d loss / d x at x
    PGD     x_0 = P(x + eps u),  u uniform in [-1, 1]   x_{t+1} = P(x_t + step sign(d loss / d x at x_t))

P puts every pixel back into [x - eps, x + eps] and into 0 .. 1. A pixel of x that lies outside 0 .. 1 already, by
rounding or because x is no picture, bounds itself: without an attack nothing changes. The loss is the cross-entropy of
the true label, the model is in evaluation mode, the gradient is that of the picture with the normalisation folded in,
and eps is in 1/255 of the pixel range.

FGSM takes one step at each strength. PGD takes `steps` steps of size 2.5 eps / steps from a random start in the ball,
drawn for each image from the seed and its place in the data. An image that is wrong as it is, or that PGD could change
within a smaller eps, counts as wrong at every larger one, for the changed picture lies in the larger ball too. So PGD
is tried only on the images that are left, and its accuracy can only fall with eps.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.core import distributed
from vitscope.core.arguments import CountFromZero, Positive
from vitscope.core.errors import VitscopeError
from vitscope.data import Readout
from vitscope.engine.conditions import main_headlines, nothing_scored, score_conditions, scored
from vitscope.engine.exam import procedure
from vitscope.engine.own_passes import own_passes
from vitscope.engine.pixels import START, PixelModel, uniform
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import Asked
from vitscope.findings.adversarial import CLEAN, FGSM, PGD, AdversarialResult, Attacked

STRENGTHS = (2.0, 4.0, 8.0)
STEPS = 4
REACH = 2.5  # all steps of PGD together, in eps: enough to cross the ball from any start


@procedure(AdversarialResult, evaluation=True, resumable=True, needs_labels=True)
def adversarial(
    model: nn.Module,
    data: Any,
    request: Asked,
    parts: PartialResults | None = None,
    strengths: Sequence[Positive] = STRENGTHS,
    steps: CountFromZero = STEPS,
) -> AdversarialResult:
    """Attack `model` with FGSM and PGD; `examine` documents the other arguments.

    Args:
        strengths: How far a pixel may move, in 1/255.
        steps: Of PGD; 0: FGSM only.
    """
    if not strengths:
        raise VitscopeError("strengths is empty; expected numbers above 0, in 1/255")
    strengths = sorted(set(map(float, strengths)))
    attacks = (FGSM, PGD) if steps else (FGSM,)
    attacked = (Attacked("", 0.0), *(Attacked(attack, eps) for attack in attacks for eps in strengths))
    with own_passes(model, data, request, labelled=True, parts=parts) as own:
        model.requires_grad_(False)  # the image's gradient is wanted; `own_passes` puts this back
        seen = PixelModel.of(own)
        if not seen.has_gradient(own.noise(1)):  # it cannot be attacked this way
            n = sum(distributed.gather(own.n_images))
            nothing = nothing_scored(n)
            return AdversarialResult(
                **own.common, n=n, steps=steps, attacked=(), scores=nothing, headlines=()
            )

        def predict(images: Tensor, labels: Tensor, indices: Tensor) -> Iterator[tuple[str, Tensor]]:
            pixels, logits = seen.pixels(images), seen.clean(images)
            yield CLEAN, logits
            gradient = seen.gradient(pixels, partial(_loss, own.readout, labels, indices))
            for eps in strengths:
                yield Attacked(FGSM, eps).condition, seen.logits(fgsm(pixels, gradient, eps / 255))
            if steps:
                start = 2 * uniform(START, request.seed, indices, tuple(images.shape[1:])).to(pixels) - 1
                for eps in (
                    strengths
                ):  # of each image, the first picture that the model gets wrong, else the last one
                    answers, truth = own.readout(logits, labels, indices)
                    left = (answers.argmax(1) == truth).nonzero()[:, 0]
                    if len(left):
                        loss = partial(_loss, own.readout, labels[left], indices[left])
                        gradient_at, step = partial(seen.gradient, score=loss), REACH * eps / 255 / steps
                        moved = pgd(pixels[left], gradient_at, eps / 255, steps, step, start[left])
                        logits = logits.clone()
                        logits[left] = seen.logits(moved)
                    yield Attacked(PGD, eps).condition, logits

        names = [a.condition for a in attacked]
        found = score_conditions("adversarial", own, names, predict)
        scores = scored([found[condition] for condition in names], reference=found[CLEAN])
        return AdversarialResult(
            **own.common,
            n=scores.n,
            steps=steps,
            attacked=attacked,
            scores=scores,
            headlines=tuple(h for c in names[1:] for h in main_headlines(c, [found[c]])),
        )


def _loss(readout: Readout, labels: Tensor, indices: Tensor, logits: Tensor) -> Tensor:
    logits, labels = readout(logits, labels, indices)
    return nn.functional.cross_entropy(logits.float(), labels, reduction="none")


def project(moved: Tensor, pixels: Tensor, eps: float) -> Tensor:
    """The picture nearest to `moved` that is within eps of `pixels` and a picture."""
    low = torch.maximum(pixels - eps, pixels.clamp(max=0.0))
    high = torch.minimum(pixels + eps, pixels.clamp(min=1.0))
    return moved.clamp(low, high)


def fgsm(pixels: Tensor, gradient: Tensor, eps: float) -> Tensor:
    """One step of size eps along the sign of the gradient."""
    return project(pixels + eps * gradient.sign(), pixels, eps)


def pgd(
    pixels: Tensor,
    gradient_at: Callable[[Tensor], Tensor],
    eps: float,
    steps: int,
    step: float,
    start: Tensor,
) -> Tensor:
    """Steps of size `step` along the sign of the gradient, from where `start`, in [-1, 1], lies in the ball."""
    moved = project(pixels + eps * start, pixels, eps)
    for _ in range(steps):
        moved = project(moved + step * gradient_at(moved).sign(), pixels, eps)
    return moved
