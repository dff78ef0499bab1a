"""Functions of a model and data: told how the model is spoken to, given data that is a name, and asked alike.

vs.exams.fourier(model, "fashion", output="logits")
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Annotated, Any, ParamSpec, Protocol, TypeVar, overload

import torch
from torch import nn

from vitscope.core.arguments import FieldsOf, files_in_words
from vitscope.core.arguments.calling import gathered, readable, reader, signature_of
from vitscope.core.interface import Interface, declared, shown_classes
from vitscope.data import load_data
from vitscope.data.images import class_names
from vitscope.data.tasks.tensors import with_masks

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned", covariant=True)


@dataclass(frozen=True)
class Request:
    """What every exam is asked, whatever it measures; `examine` documents it."""

    limit: int | None = None
    batch_size: int = 128
    seed: int = 0
    device: str | torch.device | None = None
    name: str | None = None


UNASKED = Request()
# arguments that callers give as those of `Request`
Asked = Annotated[Request, FieldsOf(Request)]
AskedUnnamed = Annotated[Request, FieldsOf(Request, but=("name",))]


class TakesInterface(Protocol[Parameters, Returned]):
    """A function of a model that takes `output`, `mean` and `std` by name, besides its own arguments."""

    @overload
    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned: ...
    @overload
    def __call__(
        self,
        *args: Any,
        output: str | int | None = None,
        mean: Iterable[float] | float | None = None,
        std: Iterable[float] | float | None = None,
        **kwargs: Any,
    ) -> Returned: ...


def takes_interface(function: Callable[Parameters, Returned]) -> TakesInterface[Parameters, Returned]:
    """Let a function whose first argument is a model, or several, take `output`, `mean` and `std` by name."""
    signature = signature_of(function)
    look = reader(function, also=[field.name for field in fields(Interface)])
    first = next(iter(signature.parameters))
    annotations = {field.name: field.type for field in fields(Interface)}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
    ]

    named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    surplus = [one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]

    @functools.wraps(function)
    def with_interface(
        *args: Any, output: Any = None, mean: Any = None, std: Any = None, **kwargs: Any
    ) -> Any:
        given = look(args, kwargs)
        subject, data = given.arguments.get(first), given.arguments.get("data")
        models = [subject] if isinstance(subject, nn.Module) else subject
        with files_in_words(), ExitStack() as stack:
            if isinstance(data, str):
                data = given.arguments["data"] = load_data(data)
            elif data is not None:
                data = given.arguments["data"] = with_masks(data, given.arguments.get("limit"))
            for model in models if isinstance(models, list | tuple) else ():
                stack.enter_context(declared(model, output, mean, std))
                stack.enter_context(shown_classes(model, _classes_of(data)))
            if not _made_for_inference(models):  # exams switch gradients on and off themselves
                stack.enter_context(torch.inference_mode(False))
            call = gathered(function, given)
            return function(*call.args, **call.kwargs)

    taken = signature.replace(parameters=[*named, *added, *surplus])
    with_interface.__signature__ = readable(taken)  # type: ignore[attr-defined]
    return with_interface


def _made_for_inference(models: Any) -> bool:
    """Whether weights were made under `torch.inference_mode`, and are of use inside only."""
    several = models if isinstance(models, list | tuple) else ()
    return any(p.is_inference() for model in several for p in model.parameters())


def _classes_of(data: Any) -> int | None:
    names = class_names(getattr(data, "dataset", data))
    return len(names) if names else None
