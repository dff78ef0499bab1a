"""An operation proves that it acts, as a user will run the model: in evaluation, without gradients and with.

What was put in must be called in both passes as often as the module it was put into, and what took a module's place as
often as that module was; and both passes must say the same. A fused kernel that reads weights past the modules, or a
module that runs through all it holds, breaks one of these. A pass that is watched by hooks or a function mode may take
another path than a plain one, so calls are counted by a hook that no module has: torch's global one.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import example_batch, example_inputs
from vitscope.anatomy.watch.one_forward import main_output
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.graft import Grafted


class NotProved(VitscopeError):
    """Why an operation cannot be seen to act."""


class Snapshot:
    """The modules of a model as they are now, so that an operation that turns out wrong can be taken back whole.

    Classes, children, parameters, buffers and attributes of every module are remembered, not what is in the tensors: an
    operation puts other tensors in their place and writes into none.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = {module: (type(module), dict(module.__dict__)) for module in model.modules()}
        attributes = [value for _, state in self._modules.values() for value in state.values()]
        # hooks are removed through the dict they were put into: that very dict must come back, with what was in it
        self._contents = [
            (value, value.copy()) for value in attributes if isinstance(value, dict | list | set)
        ]

    def __contains__(self, module: nn.Module) -> bool:
        return module in self._modules

    def restore(self) -> None:
        """Make the model what it was."""
        for module, (cls, state) in self._modules.items():
            object.__setattr__(module, "__class__", cls)
            module.__dict__.clear()
            module.__dict__.update(state)
        for container, content in self._contents:
            container.clear()
            if isinstance(container, list):
                container.extend(content)
            else:
                container.update(content)


@dataclass(frozen=True)
class _Pass:
    """What a model said, and how often each of its modules was called."""

    outputs: list[Tensor]
    calls: Counter[nn.Module]


@dataclass(frozen=True)
class _New:
    """A module that an operation brought, and the module it was grafted to; None: it took another one's place."""

    path: str
    module: nn.Module
    host: nn.Module | None


def prove(model: nn.Module, before: Snapshot, example: Any = None) -> None:
    """Run the model as the operation left it on an example (as for `vs.anatomy`, or a dict of named inputs), without
    and with gradients; raises `NotProved` if what is new in it does not act, or not as often as it should."""
    new = _new_modules(model, before)
    plain = _run(model, example, gradients=False)
    try:
        graded = _run(model, example, gradients=True)
    except NotProved:
        with _as_before(model, before):
            if _runs(model, example, gradients=True):
                raise
        graded = plain  # it never ran with gradients: of integers, say, or made in inference mode
    wanted = _wanted_calls(model, before, example, new, graded)
    for one in new:
        for how, seen in (("without", plain), ("with", graded)):
            if seen.calls[one.module] != wanted[one.path]:
                raise NotProved(
                    f"in a pass {how} gradients '{one.path}' is called {_times(seen.calls[one.module])}, "
                    f"its place in the model {_times(wanted[one.path])}"
                )
    if _differ(plain, graded) and not _differs_by_itself(model, before, example, plain):
        raise NotProved("passes without and with gradients do not give the same output")


def _run(model: nn.Module, example: Any, *, gradients: bool) -> _Pass:
    with (
        preserved(model),
        torch.inference_mode(False),
        torch.set_grad_enabled(gradients),
        _counted_calls() as calls,
    ):
        named = isinstance(example, Mapping)
        inputs = example_inputs(model, example) if named else {"": example_batch(model, example)}
        if gradients:
            inputs = {name: _with_gradient(tensor) for name, tensor in inputs.items()}
        torch.manual_seed(0)
        try:
            output = model(**inputs) if named else model(inputs[""])
        except Exception as error:
            how = "with" if gradients else "without"
            raise NotProved(
                f"the model does not run {how} gradients after it ({type(error).__name__}: {error})"
            ) from error
        return _Pass([tensor.detach() for tensor in main_output(output)], calls)


def _with_gradient(tensor: Tensor) -> Tensor:
    """Of the image, so that a model whose weights are frozen has some; no leaf, it may be written to."""
    return tensor.requires_grad_().clone() if tensor.is_floating_point() else tensor


@contextmanager
def _counted_calls() -> Iterator[Counter[nn.Module]]:
    calls: Counter[nn.Module] = Counter()

    def count(module: nn.Module, _: Any) -> None:
        calls[module] += 1

    handle = register_module_forward_pre_hook(count)
    try:
        yield calls
    finally:
        handle.remove()


def _runs(model: nn.Module, example: Any, *, gradients: bool) -> bool:
    try:
        _run(model, example, gradients=gradients)
    except NotProved:
        return False
    return True


@contextmanager
def _as_before(model: nn.Module, before: Snapshot) -> Iterator[None]:
    now = Snapshot(model)
    before.restore()
    try:
        yield
    finally:
        now.restore()


def _new_modules(model: nn.Module, before: Snapshot) -> list[_New]:
    """The outermost ones: what is inside of them is their own affair."""
    new: list[_New] = []
    for path, module in model.named_modules():
        parent_path, _, name = path.rpartition(".")
        parent = model.get_submodule(parent_path)
        if module in before or parent not in before:
            continue
        grafted = isinstance(parent, Grafted) and name in [graft.child for graft in parent.vitscope_grafts]
        new.append(_New(path, module, parent if grafted else None))
    return new


def _wanted_calls(
    model: nn.Module, before: Snapshot, example: Any, new: list[_New], graded: _Pass
) -> dict[str, int]:
    """How often each new module should be called in a pass, at least once."""
    wanted = {one.path: graded.calls[one.host] for one in new if one.host is not None}
    others = [one for one in new if one.host is None]
    if others:
        with _as_before(model, before):
            calls = _run(model, example, gradients=False).calls
            paths = dict(model.named_modules())
            wanted |= {one.path: calls[paths[one.path]] for one in others if one.path in paths}
    wanted |= {one.path: graded.calls[one.module] for one in others if one.path not in wanted}  # appended
    return {path: max(1, calls) for path, calls in wanted.items()}


def _differ(a: _Pass, b: _Pass) -> bool:
    """By more than half the digits of their precision; NaN equals itself."""
    if [t.shape for t in a.outputs] != [t.shape for t in b.outputs]:
        return True
    return any(_far(x, y) for x, y in zip(a.outputs, b.outputs, strict=True) if not x.is_meta)


def _far(x: Tensor, y: Tensor) -> bool:
    finite = y[y.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    tolerance = math.sqrt(torch.finfo(y.dtype).eps) * scale
    return not torch.allclose(x, y, rtol=0.0, atol=tolerance, equal_nan=True)


def _differs_by_itself(model: nn.Module, before: Snapshot, example: Any, plain: _Pass) -> bool:
    """Another pass of the same kind says something else too, or so it was before the operation."""
    if _differ(_run(model, example, gradients=False), plain):
        return True
    with _as_before(model, before):
        passes = (_run(model, example, gradients=gradients) for gradients in (False, True))
        return _differ(*passes)


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
