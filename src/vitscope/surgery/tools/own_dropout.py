"""A model's own dropout: the modules that draw in training mode, and do nothing else by it.

Dropout and stochastic depth that are modules have neither children nor weights. Dropout by a function, as that of
attention weights (nn.MultiheadAttention; timm, torchvision, Hugging Face), follows the training flag of the module that
calls it, and there the flag may mean more: another output, statistics that move. Such modules are seen in a pass; they
count if their training mode changes nothing where the dropout itself is left out.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import runs_on
from vitscope.anatomy.watch.one_forward import ForwardWatch, operation_name, tensors_in
from vitscope.anatomy.watch.operations import FUSED
from vitscope.core.errors import warn

DROPOUTS = frozenset(
    name + end
    for name in "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout".split()
    for end in ("", "_")
)
CLOSE = 1e-3  # of the largest number: what another order of sums may do


def own_dropouts(model: nn.Module, images: Tensor) -> list[nn.Module]:
    """The modules of `model` whose training mode is dropout or stochastic depth, and no more; images to watch it on."""
    return without_weights(model) + _by_function(model, images)


def without_weights(model: nn.Module) -> list[nn.Module]:
    """Those that are modules of their own."""
    return [module for module in model.modules() if _is_bare(module)]


def _is_bare(module: nn.Module) -> bool:
    """Without weights and buffers: dropout, stochastic depth, and what no mode makes a difference to."""
    return not [*module.children(), *module.parameters(), *module.buffers()]


class _NoDraws(ForwardWatch):
    """Leaves out dropout by a function; `callers` could ask for some, `asking` did."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: set[str] = set()
        self.asking: set[str] = set()

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note who calls, and go on without."""
        name = operation_name(func)
        if name == FUSED:
            said = dict(
                zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)
            )
            said |= kwargs
            self._note(said.pop("dropout_p", 0.0) > 0)
            return func(**said)
        if name not in DROPOUTS:
            return func(*args, **kwargs)
        said = dict(zip(("input", "p", "training"), args, strict=False)) | kwargs
        on = said.get("training", said.get("train", name.startswith("dropout")))
        self._note(bool(on) and said.get("p", 0.5) > 0)
        return said["input"]

    def _note(self, asking: bool) -> None:
        path = self.frames[-1].path if self.frames else ""
        self.callers.add(path)
        if asking:
            self.asking.add(path)


@torch.no_grad()
def _by_function(model: nn.Module, images: Tensor) -> list[nn.Module]:
    """The modules that apply dropout by a function and are as they were, but for that, in training mode."""
    with preserved(model):
        with runs_on(model, images):
            plain, seen = _run(model, images)
        modules = dict(model.named_modules())
        callers = sorted(path for path in seen.callers if not _is_bare(modules[path]))
        same, asking = _in_training(model, images, callers, plain) if callers else (True, [])
        if same:
            return [modules[path] for path in asking]
        tried = {path: _in_training(model, images, [path], plain) for path in callers}
    left_out = [path or type(model).__name__ for path, (same, asking) in tried.items() if asking and not same]
    if left_out:
        warn(
            f"the dropout inside {', '.join(left_out)} stays off: training mode changes more there than dropout; "
            "make it a module of its own (nn.Dropout) to have it in the passes"
        )
    return [modules[path] for path, (same, asking) in tried.items() if asking and same]


def _in_training(
    model: nn.Module, images: Tensor, paths: Sequence[str], plain: Sequence[Tensor]
) -> tuple[bool, list[str]]:
    """Whether nothing changes with the modules at `paths` in training mode, and which of them ask for dropout."""
    modules = [model.get_submodule(path) for path in paths]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    watch = _NoDraws()
    try:
        for module in modules:
            module.training = True
        found, _ = _run(model, images, watch)
        same = len(found) == len(plain) and all(map(_agree, found, plain))
    except Exception:  # whatever a model wants in training, such as targets
        same = False
    finally:
        for module in modules:
            module.training = False
    for buffer, before in buffers:
        if not torch.equal(buffer, before):
            buffer.copy_(before)
            same = False
    return same, [path for path in paths if path in watch.asking]


def _run(model: nn.Module, images: Tensor, watch: _NoDraws | None = None) -> tuple[list[Tensor], _NoDraws]:
    watch = watch or _NoDraws()
    with watch.following(model), watch:
        return [tensor.clone() for tensor in tensors_in(model(images))], watch


def _agree(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or not one.is_floating_point():
        return one.shape == other.shape and torch.equal(one, other)
    return torch.allclose(
        one, other, rtol=0.0, atol=CLOSE * float(other.abs().nan_to_num().max()), equal_nan=True
    )
