"""Which parameters weight decay spares beside biases and norms: tokens and position embeddings.

A model that says so itself (`no_weight_decay()`, as timm's do) is believed, and those of timm that say nothing have
nothing spared, as in timm's own trainings. Of all others these are spared:

- what has a name of tokens, positions or biases: `cls_token`, `pos`, `relative_position_bias_table`; of embeddings
  (`nn.Embedding`) and lists of parameters it is the module's name that counts;
- what has the shape (1, tokens, width), the same for all images, whatever its name.

Weights of layers are neither: what is called `weight...`, what belongs to a layer of torch, and what a parametrisation
holds.
"""

import re

from torch import nn

_HELD = (nn.Embedding, nn.ParameterList, nn.ParameterDict)
_ANYTHING = (nn.Module, nn.Sequential)  # torch's own classes that are no layers
_TOKENS = r"(cls|tokens?|class_embeddings?)"
_POSITIONS = r"(pos|positions?|positional)"
_NAMED = re.compile(rf"(^|_){_TOKENS}$|(^|_){_POSITIONS}(_|$)|(^|_)bias(es)?$", re.IGNORECASE)


def spared_from_decay(model: nn.Module) -> set[str]:
    """Names of the tokens and position embeddings of `model`; biases and norms are known by their single axis."""
    said = getattr(model, "no_weight_decay", None)
    if said is not None:
        return set(said())
    if any(kind.__module__.startswith("timm.models.") for kind in type(model).__mro__):
        return set()
    return {
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
        if _is_spared(path, module, name, parameter)
    }


def _is_spared(path: str, module: nn.Module, name: str, parameter: nn.Parameter) -> bool:
    if parameter.ndim < 2:
        return False
    if isinstance(module, _HELD):
        name = path.rpartition(".")[2]
    elif type(module).__module__.startswith("torch.nn.") and type(module) not in _ANYTHING:
        return False
    if name.startswith("weight"):
        return False
    alike = parameter.ndim == 3 and parameter.shape[0] == 1 < parameter.shape[2]
    return alike or _NAMED.search(name) is not None
