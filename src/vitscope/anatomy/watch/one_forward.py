"""What watching and tapping share: names of operations, composite functions that are entered, module calls as frames.

Both look at a forward pass through a `TorchFunctionMode`. An operation is found again in a later pass by
its `Site`: the module that called it, which call of that module, the operation's name, and the number of its
occurrence inside that call.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, is_dataclass
from types import FunctionType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from vitscope.core.outputs import NoClassScores, Place, UndecidedOutput, place_of_scores, scores_at


class Site(NamedTuple):
    """Where in a forward pass an operation stands."""

    path: str  # module whose call contains the operation most closely
    call: int  # which call of that module in this pass, from 0
    name: str  # the operation
    occurrence: int  # how many operations of that name came before it in this call, its children's included
    output: int = 0  # which of the operation's outputs


@dataclass
class Frame:
    """One running call of a module."""

    path: str
    call: int
    inputs: tuple[Any, ...] = ()
    seen: Counter[str] = field(default_factory=Counter)


def operation_name(function: Callable[..., Any]) -> str:
    """`add`, `linear`, `scaled_dot_product_attention` ...; attribute reads are named after the attribute."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        return str(getattr(getattr(function, "__self__", None), "__name__", "get"))
    return name


def _without_override_check(function: Any) -> FunctionType:
    """The same function, minus the hand-over to the function mode at its top: the mode sees what is inside."""
    globals_ = {**function.__globals__, "has_torch_function": lambda *_: False}
    twin = FunctionType(
        function.__code__, globals_, argdefs=function.__defaults__, closure=function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


ENTERED = {F.multi_head_attention_forward: _without_override_check(F.multi_head_attention_forward)}


class OperationMode(TorchFunctionMode):
    """Hands every torch operation to `operation`, those inside of composite functions too."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in ENTERED:
            return self.operation(func, args, kwargs)
        with self:
            return ENTERED[func](*args, **kwargs)

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called in place of every torch operation."""
        raise NotImplementedError


class ForwardWatch(OperationMode):
    """Base of the two modes: subclasses override `operation`; frames are kept for the modules they name."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.calls: Counter[str] = Counter()

    def enter(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module's forward begins."""
        self.frames.append(Frame(path, self.calls[path], (*args, *kwargs.values())))
        self.calls[path] += 1

    def leave(self, path: str, output: Any) -> None:
        """A module's forward ends, also by an exception."""
        while self.frames and self.frames.pop().path != path:
            pass

    @contextmanager
    def following(self, model: nn.Module, paths: set[str] | None = None) -> Iterator[None]:
        """Keep frames for the modules in `paths` (default: all); the hooks go when the block is left."""
        with ExitStack() as hooks:
            for path, module in model.named_modules():
                if paths is None or path in paths:
                    for handle in self._hooks(path, module):
                        hooks.enter_context(handle)
            yield

    def _hooks(self, path: str, module: nn.Module) -> list[RemovableHandle]:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.enter(path, args, kwargs)

        def after(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self.leave(path, output)

        return [
            module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
            module.register_forward_hook(after, always_call=True),
        ]


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples, dicts and model outputs, in order."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_in(value)
    elif is_dataclass(tree) and not isinstance(tree, type):
        yield from tensors_in(vars(tree))


def main_output(output: Any) -> list[Tensor]:
    """What a model returns, as tensors; of a named output only its logits, if it has any."""
    logits = getattr(output, "logits", None)
    if isinstance(logits, Tensor):
        return [logits]
    return [t for t in tensors_in(output) if t.is_floating_point()]


class End(NamedTuple):
    """Where a model ends: its class scores; all that it returns where it has none, or which they are is not known."""

    tensors: list[Tensor]
    output: Place | None = None  # which of several outputs it is
    undecided: str = ""  # why it is not known which of them are the scores


def end_of(model: nn.Module, output: Any, n_images: int) -> End:
    """Find the end of a model in what it returned."""
    try:
        place = place_of_scores(model, output, n_images)
    except NoClassScores:
        return End(main_output(output))
    except UndecidedOutput as error:
        return End(main_output(output), undecided=str(error))
    return End([scores_at(output, place)], place)


def examined_output(model: nn.Module, output: Any, n_images: int) -> list[Tensor]:
    """The tensors that a model ends with."""
    return end_of(model, output, n_images).tensors


def scaled_dot_product_probabilities(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The matrix that `scaled_dot_product_attention` multiplies its values by, (..., queries, keys)."""
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
    scale = query.size(-1) ** -0.5 if scale is None else scale
    logits = (query * scale) @ key.transpose(-2, -1)
    if is_causal:
        allowed = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
        logits = logits.masked_fill(~allowed, float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        logits = logits.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        logits = logits + attn_mask
    return logits.softmax(-1)
