"""One conv block more at the end of a stage, as AlterNet adds to ResNet's last one to have an even number.

The new block is a copy of the one before it with its weights drawn anew: every module that has
`reset_parameters`, torch's own protocol, is reset; what has none (a layer scale) keeps the values it had.
"""

import copy

from torch import nn

from vitscope.surgery.tools.record import CannotOperate
from vitscope.surgery.tools.replaceable import ConvStage


def append_block(model: nn.Module, stage: ConvStage) -> str:
    """Append a fresh copy of the stage's last block to the container that holds it, and give its path."""
    if not stage.replaceable:
        raise CannotOperate(
            f"stage {stage.number} has no block that keeps the shape of its map, so none can be added after it; "
            "leave extra_block out"
        )
    path = stage.replaceable[0].path
    parent_path, _, name = path.rpartition(".")
    parent = model.get_submodule(parent_path)
    if not isinstance(parent, nn.Sequential | nn.ModuleList) or list(parent._modules)[-1] != name:
        raise CannotOperate(
            f"block '{path}' is not the last one of an nn.Sequential or nn.ModuleList, so none can be added after "
            "it; leave extra_block out, or build the model with one block more"
        )
    fresh = copy.deepcopy(model.get_submodule(path))
    for module in fresh.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
    parent.append(fresh)
    return f"{parent_path}.{list(parent._modules)[-1]}" if parent_path else list(parent._modules)[-1]


def remove_block(model: nn.Module, path: str) -> None:
    """Take an appended block out again."""
    parent_path, _, name = path.rpartition(".")
    del model.get_submodule(parent_path)._modules[name]
