"""Which module owns a unit, and what the unit is called."""

from collections import Counter
from collections.abc import Iterable
from itertools import takewhile

from torch import nn


def common_path(paths: Iterable[str]) -> str:
    """The deepest module that contains all of `paths`."""
    split = [path.split(".") if path else [] for path in paths]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*split, strict=False))
    return ".".join(parts[0] for parts in same)


def main_path(paths: list[str]) -> str:
    """Like `common_path`; where that is the whole model, of the part of the model that holds most of `paths`."""
    common = common_path(paths)
    if common or not paths:
        return common
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(path.partition(".")[0], []).append(path)
    return common_path(sorted(groups.values(), key=len)[-1])


def block_path(path: str) -> str:
    """The numbered block a module stands in (`layers.1.downsample.norm` -> `layers.1`), or the module itself."""
    parts = path.split(".")
    numbered = [i for i, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbered[-1] + 1]) if numbered else path


def in_one_block(model: nn.Module, paths: Iterable[str]) -> bool:
    """Whether all of `paths` lie in one numbered block of which there are several of its class: what is done there are
    the inner workings of a block, no stages."""
    parts = common_path(paths).split(".")
    for depth in range(1, len(parts) + 1):
        if parts[depth - 1].isdigit():
            around = model.get_submodule(".".join(parts[: depth - 1]))
            block = own_class(model.get_submodule(".".join(parts[:depth])))
            if sum(own_class(child) is block for child in own_children(around)) > 1:
                return True
    return False


def climb(model: nn.Module, path: str, paths_of_others: Iterable[str]) -> str:
    """Go up from `path` while the parent holds nothing of another unit's; stay inside the numbered block."""
    others = list(paths_of_others)
    while "." in path:
        parent, _, last = path.rpartition(".")
        numbered_block = last.isdigit() and bool(own_children(model.get_submodule(path)))
        if numbered_block or parent.rpartition(".")[2].isdigit() or shares_owner(parent, others):
            break
        path = parent
    return path


def shares_owner(path: str, paths_of_others: Iterable[str]) -> bool:
    """Whether another unit works inside the module `path` too."""
    return path == "" or any(f"{other}.".startswith(f"{path}.") for other in paths_of_others)


def own_class(module: nn.Module) -> type:
    """The class the module was made with; what surgery grafts onto a module makes a subclass of it."""
    return type(module).__mro__[2] if hasattr(module, "vitscope_grafts") else type(module)


def own_children(module: nn.Module) -> list[nn.Module]:
    """The module's children, without what surgery grafted onto it."""
    grafted = {graft.child for graft in getattr(module, "vitscope_grafts", ())}
    return [child for name, child in module.named_children() if name not in grafted]


def is_list(module: nn.Module) -> bool:
    """Modules that run through whatever they hold."""
    return isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict)


def is_container(module: nn.Module) -> bool:
    """Modules that only hold others and tell nothing about what a block is."""
    return is_list(module) or isinstance(module, nn.Identity)


def unique_names(names: list[str]) -> list[str]:
    """The same names, repeated ones numbered: a module that is called twice gives `x` and `x#2`."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return unique
