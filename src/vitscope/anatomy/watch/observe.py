"""Watch one forward pass and write down its graph.

Every torch operation becomes a node; modules are followed by hooks so that each operation knows who called it. Where
a tensor turns up that no watched operation made (a scripted function, a custom autograd function), an "opaque" node
ties it to the inputs of the module that was running, so that no connection is lost.
"""

import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy.watch.example import cannot_be_watched
from vitscope.anatomy.watch.graph import Graph, ModuleCall, Node, Ref, Slot
from vitscope.anatomy.watch.one_forward import End, ForwardWatch, Site, end_of, operation_name, tensors_in
from vitscope.core.errors import UnsupportedModel


def observe(
    model: nn.Module, example: Tensor, inputs: Mapping[str, Tensor] | None = None, whole: bool = False
) -> Graph:
    """Run `model(example)` once, without gradients, and return the graph of the pass.

    With named `inputs`, `example` among them, it is `model(**inputs)`; what the others give counts as constant. The
    head of a dense model is one step, unless the `whole` is to be seen.
    """
    run = partial(model, example) if inputs is None else partial(model, **inputs)
    others = [] if inputs is None else list(inputs.values())
    with torch.no_grad():
        try:
            if example.device.type != "meta":
                run()  # models that compute tables on their first pass take their usual path on the second
            watch, end, outputs = _watched(model, example, run, others, whole)
            if kept := watch.kept_by_the_model():
                watch, end, outputs = _watched(model, example, run, [*others, *kept], whole)
        except UnsupportedModel:  # of what it returned, not of how it ran
            raise
        except Exception as error:
            raise cannot_be_watched(model, example, error) from error
    if not any(watch.nodes[o].dynamic for o in outputs):
        raise UnsupportedModel(
            f"the output of {type(model).__name__} does not depend on its input as far as anatomy can follow "
            f"(the watched pass had {len(watch.nodes)} operations)"
        )
    calls = tuple(watch.module_calls)
    return Graph(watch.nodes, 0, outputs, example.shape[0], calls, end.output, end.undecided)


def _watched(
    model: nn.Module, example: Tensor, run: Callable[[], Any], constants: list[Tensor], whole: bool
) -> tuple["_Observer", End, tuple[int, ...]]:
    """One watched pass, where it ends, and the nodes of that."""
    watch = _Observer(model, example, whole)
    for constant in constants:
        watch.constant(constant)  # known from the start, so that it shows which modules are given it
    with watch.following(model), watch:
        output = run()
    end = end_of(model, output, len(example))
    return watch, end, tuple(dict.fromkeys(watch.node_of(tensor) for tensor in end.tensors))


class _Observer(ForwardWatch):
    def __init__(self, model: nn.Module, example: Tensor, whole: bool) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.module_calls: list[ModuleCall] = []
        self._begun: list[tuple[str, int, dict[Slot, int]]] = []
        self._known: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._unseen: list[weakref.ref[Tensor]] = []  # tensors that nobody saw being made
        self._own = {id(t) for t in (*model.parameters(), *model.buffers())}
        # a decoder is no part of the stream, and a detector has thousands of operations: one step, of all it was given
        self._one_step = None if whole else next(reversed(getattr(model, "vitscope_parts", ())), None)
        self._remember(example, "input", (), Site("", 0, "input", 0), dynamic=True)

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._one_step and len(self.frames) > 1 and self.frames[1].path == self._one_step:
            return func(*args, **kwargs)
        name = operation_name(func)
        for frame in self.frames:
            frame.seen[name] += 1
        tensors = list(tensors_in((args, kwargs)))
        versions = [t._version for t in tensors]
        result = func(*args, **kwargs)
        made = [args[0]] if name == "__setitem__" else list(tensors_in(result))
        if not made:
            return result
        changed = {id(t) for t, version in zip(tensors, versions, strict=True) if t._version != version}
        new = [(i, t) for i, t in enumerate(made) if id(t) in changed or all(t is not u for u in tensors)]
        if not new:
            return result  # handed its argument back untouched: contiguous(), dropout() in evaluation ...
        inputs = tuple(self.node_of(t) for t in tensors)
        call = (func, self._template(args), self._template(kwargs))
        dynamic = any(self.nodes[i].dynamic for i in inputs)
        for output, tensor in new:
            site = self._site(name, output)
            node = self._remember(tensor, name, inputs, site, dynamic, *call, None if dynamic else tensor)
            base = tensor._base if id(tensor) in changed else None
            whole = self._lookup(base) if base is not None else None
            # a write into a view also changes what it is a view of
            if base is not None and whole is not None:
                self._remember(base, "write", (whole, node), site, dynamic)
        return result

    def _site(self, name: str, output: int) -> Site:
        if not self.frames:
            return Site("", 0, name, 0, output)
        frame = self.frames[-1]
        return Site(frame.path, frame.call, name, frame.seen[name] - 1, output)

    def _template(self, tree: Any) -> Any:
        if isinstance(tree, Tensor):
            return Ref(self.node_of(tree))
        if isinstance(tree, dict):
            return {key: self._template(value) for key, value in tree.items()}
        if isinstance(tree, list | tuple):
            items = [self._template(value) for value in tree]
            return items if isinstance(tree, list) else tuple(items)
        return tree

    def _remember(
        self, tensor: Tensor, name: str, inputs: tuple[int, ...], site: Site, dynamic: bool, *call: Any
    ) -> int:
        """The index of a new node for the tensor; `call` is what else a `Node` holds."""
        index = len(self.nodes)
        self.nodes.append(Node(index, name, inputs, tuple(tensor.shape), site, dynamic, *call))
        self._known[id(tensor)] = (weakref.ref(tensor), index)
        return index

    def _lookup(self, tensor: Tensor) -> int | None:
        reference, index = self._known.get(id(tensor), (None, -1))
        return index if reference is not None and reference() is tensor else None

    def node_of(self, tensor: Tensor) -> int:
        """The node of a tensor; one nobody saw being made is a leaf, or hangs on the inputs of the running module."""
        index = self._lookup(tensor)
        if index is not None:
            return index
        if id(tensor) in self._own or isinstance(tensor, nn.Parameter) or not tensor.is_floating_point():
            return self._leaf(tensor)
        for frame in reversed(self.frames):
            sources = [s for t in tensors_in(frame.inputs) if (s := self._lookup(t)) is not None]
            if any(self.nodes[s].dynamic for s in sources):
                self._unseen.append(weakref.ref(tensor))
                site = Site(frame.path, frame.call, "opaque", frame.seen["opaque"])
                return self._remember(tensor, "opaque", tuple(sources), site, True)
        return self._leaf(tensor)

    def _leaf(self, tensor: Tensor) -> int:
        return self._remember(tensor, "leaf", (), Site("", 0, "leaf", 0), False, None, (), {}, tensor)

    def constant(self, tensor: Tensor) -> None:
        """What is made of this tensor alone does not depend on the images."""
        if self._lookup(tensor) is None:
            self._leaf(tensor)

    def kept_by_the_model(self) -> list[Tensor]:
        """Tensors that nobody saw being made and that outlive the pass: where they are met again in the next one,
        they come from a cache (tables of positions)."""
        return [tensor for reference in self._unseen if (tensor := reference()) is not None]

    def enter(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note which tensors the module is given."""
        given: dict[Slot, Any] = dict(enumerate(args))
        given.update(kwargs)
        self._begun.append((path, len(self.nodes), self._nodes_in(given)))
        super().enter(path, args, kwargs)

    def leave(self, path: str, output: Any) -> None:
        """Tie outputs that nobody saw being made to the module's inputs while its frame still stands."""
        for tensor in tensors_in(output):
            if tensor.is_floating_point():
                self.node_of(tensor)
        outputs = output if isinstance(output, list | tuple) else (output,)
        given_back = output if isinstance(output, dict) else dict(enumerate(outputs))
        while self._begun:
            begun, count, inputs = self._begun.pop()
            if begun == path:
                slots = self._nodes_in(given_back)
                self.module_calls.append(ModuleCall(path, count, len(self.nodes), inputs, slots))
                break
        super().leave(path, output)

    def _nodes_in(self, slots: dict[Slot, Any]) -> dict[Slot, int]:
        found = {slot: self._lookup(value) for slot, value in slots.items() if isinstance(value, Tensor)}
        return {slot: node for slot, node in found.items() if node is not None}
