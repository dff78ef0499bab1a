"""A model whose numbers are NaN or infinite is refused: an accuracy of it, or a frequency, would mean nothing.

Exams look at a checksum of what they see, which costs next to nothing. Only where it is not finite are the images shown
once more, to say in which unit it begins.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, Tap, Unit, anatomy
from vitscope.anatomy.taps.capture import Stream
from vitscope.anatomy.watch.example import runs_on
from vitscope.core.errors import NotFinite, VitscopeError
from vitscope.core.outputs import Place, class_scores, class_scores_if_any
from vitscope.core.tensors import all_finite, checksum, images_not_finite, weights_not_finite
from vitscope.engine.task_inputs import task_of_model
from vitscope.models import name_of


def finite_scores(model: nn.Module, images: Tensor, said: Place | None = None) -> Tensor:
    """The class scores of images; refused if they are not finite. `said`: which output, if not as the model says."""
    with runs_on(model, images):
        output = model(images)
    scores = class_scores(model, output, len(images), said)
    _require_finite(scores, model, images)
    return scores


def scored_outputs(model: nn.Module, images: Tensor, given: Any) -> Any:
    """What a model says of images, which it is `given`: finite class scores, or what a detector finds in each of them.

    A detector leaves out what is not finite, and would seem to have found nothing: its weights are looked at instead.
    """
    if task_of_model(model) != "detection":
        with runs_on(model, images):
            output = model(given)
        scores = finite_scores_in(model, output, images, needed=True)
        return scores
    require_finite_weights(model)
    with runs_on(model, images):
        return model(given)


def finite_scores_in(model: nn.Module, output: Any, images: Tensor, needed: bool = False) -> Tensor | None:
    """The class scores in what a model returned for images; to be called outside of the tap that watched it.

    Unless they are needed, None for a model that has none: exams of features do without.
    """
    scores = (class_scores if needed else class_scores_if_any)(model, output, len(images))
    if scores is not None:
        _require_finite(scores, model, images)
    return scores


def require_finite_features(
    checksums: Sequence[Tensor], model: nn.Module, images: Tensor, parts: Anatomy
) -> None:
    """Refuse a model that left features in a pass over images, of which there are checksums, that are not finite."""
    if not checksums or bool(torch.stack([one.float() for one in checksums]).isfinite().all()):
        return
    begins = _first_unit(model, images, parts)  # none where numbers are only huge
    if begins is not None:
        raise _error(model, f"the features after '{begins[0].name}'", begins[1])


@torch.inference_mode()
def look_inside(
    model: nn.Module, parts: Anatomy, images: Tensor, look: Callable[[Unit, Tensor], None], stream: Stream
) -> None:
    """Show a model images and `look` at the map after every unit; scores and features have to be finite."""
    checksums: list[Tensor] = []

    def on_feature(unit: Unit, feature: Tensor) -> None:
        checksums.append(checksum(feature))
        look(unit, feature)

    with Tap(model, parts, parts.mapped, on_feature=on_feature, stream=stream):
        output = model(images)
    finite_scores_in(model, output, images)
    require_finite_features(checksums, model, images, parts)


def overflown(what: str) -> VitscopeError:
    """The error for what is not finite although the features of the model are."""
    return VitscopeError(f"{what}; check the weights and the preprocessing, or run the model in float32")


def require_finite_weights(model: nn.Module) -> None:
    """Refuse a model with weights that are not finite, in an exam that looks at weights alone."""
    if weights_not_finite(model):
        raise _error(model, "some weights", None)


def _require_finite(scores: Tensor, model: nn.Module, images: Tensor) -> None:
    if not all_finite(scores.detach()):
        raise not_finite(model, images, scores)


def not_finite(model: nn.Module, images: Tensor, scores: Tensor, what: str = "class scores") -> NotFinite:
    """The error for a model whose scores for these images are not finite; it names the first unit that is not."""
    try:
        begins = _first_unit(model, images, anatomy(model, tuple(images.shape[1:])))
    except VitscopeError:  # a model without units that can be told: its outputs are all there is to name
        begins = None
    if begins is not None:
        return _error(model, f"the features after '{begins[0].name}'", begins[1])
    return _error(model, f"the {what}", images_not_finite(scores))


@torch.no_grad()
def _first_unit(model: nn.Module, images: Tensor, parts: Anatomy) -> tuple[Unit, Tensor] | None:
    """The first unit after which features are not finite, and for which images."""
    found: list[tuple[Unit, Tensor]] = []

    def look(unit: Unit, feature: Tensor) -> None:
        if not found and unit.kind != "head" and not all_finite(feature):
            found.append((unit, images_not_finite(feature)))

    with Tap(model, parts, parts.mapped, on_feature=look):
        model(images)
    return found[0] if found else None


def _error(model: nn.Module, what: str, bad: Tensor | None) -> NotFinite:
    where = "" if bad is None else f" for {int(bad.sum())} of {len(bad)} images"
    weights = weights_not_finite(model)
    half = any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters())
    if weights:
        name, count = next(iter(weights.items()))
        others = f", and {len(weights) - 1} more hold some" if len(weights) > 1 else ""
        hint = f"its weight '{name}' holds {count} of them{others}: load weights that are finite"
    elif half:
        hint = "its weights are finite, so it overflows in half precision: examine model.float()"
    else:
        hint = "its weights are finite, so it divides by zero or overflows: look there, or try model.double()"
    return NotFinite(f"{name_of(model)}: {what} are not finite (NaN or infinity){where}; {hint}")
