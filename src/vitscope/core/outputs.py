"""Which output of a model holds the class scores: one rule for every exam, and for training.

    1. What the user said (`output="logits"`, `output=1`, `vs.declare`). Asking a model that returns one tensor for an
       output is refused; one that was declared stays without effect there, since models may return more in training.
    2. A tensor is the class scores. So is what is named `logits`, then what is named `out`, if it fits.
    3. The one output (images, classes) with as many classes as the model says it has (`num_classes`, `num_labels`), or
       where it says nothing as the data has; where neither says, the one output with two axes.
    4. The same among maps (images, classes, height, width), where no output has two axes.

Where this leaves several, the model is refused and the message lists them: nothing is guessed. Whoever looks at
features only does without.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from vitscope.core.errors import UnsupportedModel
from vitscope.core.interface import asked_output, class_count, classes_of_data, interface_of

Place = str | int  # of a tensor in what a model returns


class UndecidedOutput(UnsupportedModel):
    """Several outputs of the model could be the class scores."""


class NoClassScores(UnsupportedModel):
    """No output of the model can be the class scores."""


def class_scores(
    model: nn.Module, output: Any, n_images: int | None = None, said: Place | None = None
) -> Tensor:
    """(images, classes) or (images, classes, height, width), in what `model` returned.

    Args:
        model: Says how many classes it has, and which output they are, as far as it does.
        output: What it returned.
        n_images: For how many images, if known.
        said: Which output it is; default: what was said about the model.

    Raises:
        UndecidedOutput: Several outputs could be them, and nothing says which.
        NoClassScores: None can.
    """
    return scores_at(output, place_of_scores(model, output, n_images, said))


def class_scores_if_any(model: nn.Module, output: Any, n_images: int | None = None) -> Tensor | None:
    """The same for whoever looks at features only: None where there are no class scores, or several could be them."""
    try:
        return class_scores(model, output, n_images)
    except (NoClassScores, UndecidedOutput):
        return None


def scores_at(output: Any, place: Place | None) -> Tensor:
    """The tensor at a place that `place_of_scores` found."""
    found = output if place is None else outputs_by_place(output)[place]
    assert isinstance(found, Tensor)
    return found


def place_of_scores(
    model: nn.Module, output: Any, n_images: int | None = None, said: Place | None = None
) -> Place | None:
    """The key or index of the class scores; None for a plain tensor. `class_scores` documents the arguments."""
    if isinstance(output, Tensor):
        _refuse_asked(model, output)
        _check(model, output, n_images)
        return None
    tensors = outputs_by_place(output)
    said = interface_of(model).output if said is None else said
    if said is not None:
        return _said(model, said, output, tensors, n_images)
    if "logits" in tensors:
        return "logits"
    if len(tensors) == 1:
        place, only = next(iter(tensors.items()))
        _check(model, only, n_images)
        return place
    classes = class_count(model) or classes_of_data(model)
    fitting = {
        place: tensor
        for place, tensor in tensors.items()
        if tensor.ndim >= 2 and n_images in (None, len(tensor)) and classes in (None, tensor.shape[1])
    }
    if "out" in fitting:
        return "out"
    vectors = [place for place, tensor in fitting.items() if tensor.ndim == 2]
    candidates = vectors or list(fitting)
    if len(candidates) == 1:
        return candidates[0]
    if vectors or sum(tensor.ndim == 2 for tensor in tensors.values()) > 1:
        raise _undecided(model, tensors, classes)
    raise _none(model, output, tensors)


def outputs_by_place(output: Any) -> dict[Place, Tensor]:
    """The floating-point tensors of an output by key, attribute or index; what is nested deeper is left out."""
    if isinstance(output, Mapping):
        items: list[tuple[Any, Any]] = list(output.items())
    elif isinstance(output, list | tuple):
        items = list(zip(getattr(output, "_fields", range(len(output))), output, strict=True))
    else:
        items = list(getattr(output, "__dict__", {}).items())
    logits = getattr(output, "logits", None)
    if isinstance(logits, Tensor) and "logits" not in dict(items):
        items.insert(0, ("logits", logits))
    return {key: value for key, value in items if isinstance(value, Tensor) and value.is_floating_point()}


def with_class_scores(output: Any, old: Tensor, new: Tensor) -> Any:
    """The same output with `new` where `old` is."""
    if isinstance(output, Tensor):
        return new
    if isinstance(output, dict):
        for key in [key for key, value in output.items() if value is old]:
            output[key] = new
        return output
    if isinstance(output, list | tuple):
        changed = [new if value is old else value for value in output]
        return type(output)(*changed) if hasattr(output, "_fields") else type(output)(changed)
    for key in [key for key, value in vars(output).items() if value is old]:
        setattr(output, key, new)
    return output


def _said(
    model: nn.Module, said: Place, output: Any, found: Mapping[Place, Tensor], n_images: int | None
) -> Place:
    """The place that the user means; an index also counts the fields of a named tuple or output."""
    place = said
    if said not in found and isinstance(said, int):
        keys = list(output) if isinstance(output, Mapping) else list(getattr(output, "_fields", ()))
        place = keys[said] if -len(keys) <= said < len(keys) else said
        if isinstance(output, list | tuple) and not keys and -len(output) <= said < 0:
            place = said + len(output)
    if place not in found:
        returned = f"what {type(model).__name__} returns: {_listed(found)}; say one of these"
        raise UnsupportedModel(
            f"output={said!r} is none of {returned}" if found else _nothing_to_name(model, output)
        )
    _check(model, found[place], n_images)
    return place


def _refuse_asked(model: nn.Module, output: Tensor) -> None:
    if (asked := asked_output(model)) is not None:
        raise UnsupportedModel(
            f"output={asked!r} is to choose among several outputs, but {type(model).__name__} returns one tensor, "
            f"{_shape(output)}; leave output= out"
        )


def _check(model: nn.Module, scores: Tensor, n_images: int | None) -> None:
    if not scores.is_floating_point():
        raise NoClassScores(
            f"{type(model).__name__} returns {_shape(scores)} of {scores.dtype}; expected class scores in floating "
            "point: wrap it so that it returns logits"
        )
    if scores.ndim < 2 or (n_images is not None and len(scores) != n_images):
        shown = "" if n_images is None else f" for {n_images} images"
        raise NoClassScores(
            f"{type(model).__name__} returns {_shape(scores)}{shown}; expected (images, classes) or "
            "(images, classes, height, width); wrap it so that it returns logits"
        )


def _undecided(model: nn.Module, found: Mapping[Place, Tensor], classes: int | None) -> UndecidedOutput:
    known = (
        "neither model nor data says how many classes there are" if classes is None else f"{classes} classes"
    )
    choices = " or ".join(f"output={place!r}" for place in found)
    return UndecidedOutput(
        f"{type(model).__name__} returns {_listed(found)} ({known}): which of them are the class scores cannot be "
        f"decided; say so: {choices} (in Python for good: vs.declare)"
    )


def _none(model: nn.Module, output: Any, found: Mapping[Place, Tensor]) -> NoClassScores:
    if not found:
        return NoClassScores(_nothing_to_name(model, output))
    return NoClassScores(
        f"{type(model).__name__} returns {_listed(found)}; expected class scores (images, classes): say "
        "which they are with output=, or wrap the model so that it returns logits"
    )


def _nothing_to_name(model: nn.Module, output: Any) -> str:
    keys = f" of {', '.join(map(repr, output))}" if isinstance(output, Mapping) else ""
    return (
        f"{type(model).__name__} returns a {type(output).__name__}{keys}, with no tensor but for what is nested "
        "deeper; expected class scores (images, classes): wrap the model so that it returns logits"
    )


def _listed(found: Mapping[Place, Tensor]) -> str:
    return ", ".join(f"{place!r}: {_shape(tensor)}" for place, tensor in found.items())


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single number"
