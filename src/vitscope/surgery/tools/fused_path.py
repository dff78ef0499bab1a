"""Keep PyTorch's fused encoder path away from grafts.

In evaluation without gradients `nn.TransformerEncoderLayer` runs one kernel on the weights of its children and calls
none of them, and `nn.TransformerEncoder` hands nested tensors to its layers if some tokens are padding. A layer takes
its ordinary path when one of the modules in it has a forward hook, so a hook that does nothing is put on a graft. It
goes with the graft, is copied with it, and concerns the layers around it alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn


def leave_fused_path(model: nn.Module, path: str, child: nn.Module) -> None:
    """Let what is around the module at `path` call its children one by one, so that its graft `child` is called too."""
    child.register_forward_pre_hook(_nothing)
    for encoder in _encoders(model, path):
        if getattr(encoder, "use_nested_tensor", False):
            encoder.use_nested_tensor = False
            encoder.vitscope_used_nested_tensor = True


def return_to_fused_path(model: nn.Module, path: str, grafted: Sequence[nn.Module]) -> None:
    """The encoders around the module at `path` that hold no grafts any more are what they were."""
    for encoder in _encoders(model, path):
        inside = {id(module) for module in encoder.modules()}
        if hasattr(encoder, "vitscope_used_nested_tensor") and not any(id(m) in inside for m in grafted):
            encoder.use_nested_tensor = True
            del encoder.vitscope_used_nested_tensor


def _nothing(module: nn.Module, args: Any) -> None:
    """A hook that changes nothing; that it is there is what counts."""


def _encoders(model: nn.Module, path: str) -> Iterator[Any]:
    names = path.split(".") if path else []
    around = (model.get_submodule(".".join(names[:depth])) for depth in range(len(names) + 1))
    return (module for module in around if isinstance(module, nn.TransformerEncoder))
