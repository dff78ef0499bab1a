"""What a model is made of, so that an operation that turns out wrong can be taken back whole.

Classes, children, parameters, buffers and attributes of every module are remembered, not what is in the tensors: an
operation puts other tensors in their place and writes into none.
"""

from typing import Any

from torch import nn


class Snapshot:
    """The modules of a model as they are now."""

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
            _refill(container, content)


def _refill(container: Any, content: Any) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)
