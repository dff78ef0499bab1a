"""Put a step into a model that has no place for it.

A graft is a child module that a module of the model gets, and that works on one of its arguments ("input"), on
one of its outputs ("output"), or is called in place of the module with a way to run it ("around"). The module
stays what it is: its class becomes a subclass of itself, its parameters keep their names, so weights of the
original model still fit, and `copy.deepcopy`, pickle, `torch.compile`, `torch.export` and DDP see ordinary modules.

torch swaps the classes of modules, too: a parametrised module (`weight_norm`, `spectral_norm`) is of a subclass that
torch made for it alone, and takes to be on top. So ours goes below such a class, and comes out from below it:

    ParametrizedConv2d -> Conv2d          becomes          ParametrizedGraftedConv2d -> GraftedConv2d -> Grafted, Conv2d

Two habits of models would run a graft twice or pass it by. A module may run through all its children: while it runs,
its grafts are not among them. And in evaluation without gradients `nn.TransformerEncoderLayer` runs one kernel on the
weights of its children and calls none of them, and `nn.TransformerEncoder` hands nested tensors to its layers if some
tokens are padding. A layer takes its ordinary path when one of the modules in it has a forward hook, so a hook that
does nothing is put on a graft. It goes with the graft, is copied with it, and concerns the layers around it alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.utils import parametrize

from vitscope.anatomy.taps.ports import Port
from vitscope.core.errors import VitscopeError

Slot = int | str
Where = Literal["input", "output", "around"]


@dataclass(frozen=True)
class Graft:
    """One child and what it works on."""

    child: str  # name of the submodule
    where: Where
    slots: tuple[Slot, ...] = (0,)  # positions or keywords of arguments, positions or keys of outputs


class Grafted(nn.Module):
    """Mixed into the class of a module that has grafts."""

    vitscope_grafts: tuple[Graft, ...]
    vitscope_running: list[None]  # an entry for each running call, which threads add and take without a lock

    @property
    def _modules(self) -> dict[str, nn.Module | None]:
        """The children; inside the module's own forward, which may run through them all, without the grafts."""
        children: dict[str, nn.Module | None] = self.__dict__["_modules"]
        if not self.vitscope_running:
            return children
        grafted = [graft.child for graft in self.vitscope_grafts]
        return {name: child for name, child in children.items() if name not in grafted}

    @_modules.setter
    def _modules(self, children: dict[str, nn.Module | None]) -> None:
        self.__dict__["_modules"] = children

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """How it is copied, and sent to another process, which makes the class again."""
        state = {**self.__getstate__(), "vitscope_running": []}
        return _empty, (without_mixin(type(self), Grafted),), state

    def vitscope_run_ungrafted(self, *args: Any, **kwargs: Any) -> Any:
        """What the module did before."""
        self.vitscope_running.append(None)
        try:
            return super().forward(*args, **kwargs)
        finally:
            self.vitscope_running.pop()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module did before, with its grafts applied, the earliest first."""
        run: Callable[..., Any] = self.vitscope_run_ungrafted
        for graft in self.vitscope_grafts:
            if graft.where == "input":
                args, kwargs = _on_arguments(self.get_submodule(graft.child), graft.slots, args, kwargs)
            elif graft.where == "around":
                run = partial(self.get_submodule(graft.child), run)
        output = run(*args, **kwargs)
        for graft in self.vitscope_grafts:
            if graft.where == "output":
                output = _on_output(self.get_submodule(graft.child), graft.slots, output)
        return output


def _empty(cls: type[nn.Module]) -> nn.Module:
    """A module of this class that has grafts, before it has anything in it."""
    grafted: Any = with_mixin(cls, Grafted)
    module: nn.Module = grafted.__new__(grafted)
    return module


def graft(
    model: nn.Module, path: str, child: nn.Module, name: str, where: Where, slots: tuple[Slot, ...] = (0,)
) -> str:
    """Give the module at `path` a child that works on its argument, on its output or around it; returns its path, by
    which `ungraft` finds it."""
    module = model.get_submodule(path)
    own = next(module.parameters(), None)
    reference = own if own is not None else next(model.parameters(), None)
    if reference is not None:
        child.to(reference.device, reference.dtype if reference.is_floating_point() else None)
    child.train(module.training)
    taken, number = name, 2
    while hasattr(module, taken):
        taken, number = f"{name}_{number}", number + 1
    if not isinstance(module, Grafted):
        module.__class__ = with_mixin(type(module), Grafted)
        module.vitscope_grafts = ()  # type: ignore[assignment]
        module.vitscope_running = []  # type: ignore[assignment]
    module.add_module(taken, child)
    child.register_forward_pre_hook(_nothing)
    for encoder in _encoders(model, path):
        if getattr(encoder, "use_nested_tensor", False):
            encoder.use_nested_tensor = False
            encoder.vitscope_used_nested_tensor = True
    module.vitscope_grafts = (*module.vitscope_grafts, Graft(taken, where, slots))  # type: ignore[assignment,misc]
    return f"{path}.{taken}" if path else taken


def graft_at(model: nn.Module, port: Port, child: nn.Module, name: str) -> str:
    """Let a child work on the tensor at a port."""
    return graft(model, port.module, child, name, port.side, port.slots)


def ungraft(model: nn.Module, path: str) -> None:
    """Take the child at `path` out again; a module whose last graft goes is of its old class again."""
    parent_path, _, name = path.rpartition(".")
    module = model.get_submodule(parent_path)
    if not isinstance(module, Grafted) or name not in [g.child for g in module.vitscope_grafts]:
        raise VitscopeError(f"there is no graft '{path}' in this {type(model).__name__}")
    module.vitscope_grafts = tuple(g for g in module.vitscope_grafts if g.child != name)
    del module._modules[name]
    if not module.vitscope_grafts:
        del module.vitscope_grafts, module.vitscope_running
        module.__class__ = without_mixin(type(module), Grafted)
    for encoder in _encoders(model, parent_path):
        still = any(isinstance(inner, Grafted) for inner in encoder.modules())
        if hasattr(encoder, "vitscope_used_nested_tensor") and not still:
            encoder.use_nested_tensor = True
            del encoder.vitscope_used_nested_tensor


def grafts(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every grafted child, with its path."""
    for path, module in model.named_modules():
        if isinstance(module, Grafted):
            for found in module.vitscope_grafts:
                yield f"{path}.{found.child}" if path else found.child, module.get_submodule(found.child)


def _on_arguments(
    step: nn.Module, slots: tuple[Slot, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    positions = [s for s in slots if isinstance(s, int) and s < len(args)]
    keywords = [s for s in slots if isinstance(s, str) and s in kwargs]
    if not positions and not keywords:
        raise VitscopeError(
            f"a graft waits for argument {slots[0]!r}, which this call does not give; call the model as before"
        )
    changed = step(args[positions[0]] if positions else kwargs[keywords[0]])
    args = tuple(changed if i in positions else value for i, value in enumerate(args))
    return args, {**kwargs, **dict.fromkeys(keywords, changed)}


def _on_output(step: nn.Module, slots: tuple[Slot, ...], output: Any) -> Any:
    if isinstance(output, Tensor):
        return step(output)
    new = step(output[slots[0]])  # several slots hold the same tensor
    if isinstance(output, dict):
        for slot in slots:
            output[slot] = new
        return output
    changed = [new if i in slots else value for i, value in enumerate(output)]
    return type(output)(*changed) if hasattr(output, "_fields") else type(output)(changed)


def _nothing(module: nn.Module, args: Any) -> None:
    """A hook that changes nothing; that it is there is what counts."""


def _encoders(model: nn.Module, path: str) -> Iterator[Any]:
    names = path.split(".") if path else []
    around = (model.get_submodule(".".join(names[:depth])) for depth in range(len(names) + 1))
    return (module for module in around if isinstance(module, nn.TransformerEncoder))


def with_mixin(cls: type, mixin: type) -> type:
    """`cls` with the mixin, below what torch has put over it."""
    if _is_parametrised(cls):
        return _over(cls, tuple(with_mixin(base, mixin) for base in cls.__bases__))
    subclasses: list[type] = cls.__subclasses__()
    made = [one for one in subclasses if one.__bases__ == (mixin, cls)]
    name, own = f"{mixin.__name__}{cls.__name__}", {"__module__": mixin.__module__}
    return made[0] if made else type(name, (mixin, cls), own)


def without_mixin(cls: type, mixin: type) -> type:
    """`cls` as it is without the mixin, whatever was put over it since."""
    if mixin in cls.__bases__:
        return cls.__bases__[1]
    if mixin not in cls.__mro__:
        return cls
    return _over(cls, tuple(without_mixin(base, mixin) for base in cls.__bases__))


def _is_parametrised(cls: type) -> bool:
    """Whether torch made the class for a parametrised module."""
    state = cls.__dict__.get("__getstate__")
    return getattr(state, "__module__", "") == parametrize.__name__ and len(cls.__bases__) == 1


def _over(cls: type, bases: tuple[type, ...]) -> type:
    """The same class over others."""
    own: dict[str, Any] = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__")}
    name = cls.__name__  # torch calls it after the class below
    for before, now in zip(cls.__bases__, bases, strict=True):
        name = name.replace(before.__name__, now.__name__)
    made: type = type(cls)(name, bases, own)
    return made
