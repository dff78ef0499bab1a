"""Which parameters a Hessian is taken over: all that learn, a module's, a pattern's, or those of a kind of unit."""

from fnmatch import fnmatchcase

from torch import nn

from vitscope.anatomy import Anatomy
from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError

_KIND = "kind:"


@checked
def select_parameters(
    model: nn.Module, params: str | None = None, parts: Anatomy | None = None
) -> dict[str, nn.Parameter]:
    """Parameters by name, in the model's order; one that is tied to another appears once.

    Args:
        model: The model.
        params: None takes every parameter that learns. Otherwise comma-separated choices, each a module or parameter
            ("layer4"), a pattern of one ("blocks.*.attn"), or "kind:msa" for every unit of a kind; those are taken
            whether they learn or not.
        parts: The model's anatomy; needed for "kind:" only.
    """
    if params is None:
        chosen = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not chosen:
            raise VitscopeError(
                f"no parameter of {type(model).__name__} learns (requires_grad); name those to take: params='*'"
            )
        return chosen
    taken: dict[int, tuple[str, nn.Parameter]] = {}
    for choice in (part.strip() for part in params.split(",")):
        modules = _modules_of_kind(choice[len(_KIND) :], parts) if choice.startswith(_KIND) else [choice]
        found = [
            (name, p)
            for name, p in model.named_parameters(remove_duplicate=False)
            if any(_belongs(name, module) for module in modules)
        ]
        if not found:
            tops = ", ".join(dict.fromkeys(name.split(".")[0] for name, _ in model.named_parameters()))
            raise VitscopeError(
                f"params='{choice}' matches no parameter of {type(model).__name__}; its modules are {tops}"
            )
        for name, parameter in found:
            taken.setdefault(id(parameter), (name, parameter))
    in_order = [id(p) for p in model.parameters() if id(p) in taken]
    return dict(taken[key] for key in in_order)


def _belongs(name: str, pattern: str) -> bool:
    """Whether the parameter's name, or that of a module around it, matches."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))


def _modules_of_kind(kind: str, parts: Anatomy | None) -> list[str]:
    if parts is None:
        raise VitscopeError(f"params='{_KIND}{kind}' needs the model's anatomy; give parts=vs.anatomy(model)")
    units = parts.of_kind(kind)
    if not units:
        there = ", ".join(dict.fromkeys(unit.kind for unit in parts))
        raise VitscopeError(f"{parts.model_name} has no unit of kind '{kind}'; it has {there}")
    owners = {unit.module for unit in units}
    for other in parts:
        if other.kind != kind and any(
            _within(owner, other.module) or _within(other.module, owner) for owner in owners
        ):
            owner = next(o for o in owners if _within(o, other.module) or _within(other.module, o))
            raise VitscopeError(
                f"the {kind} unit in '{owner}' shares its module with the {other.kind} unit '{other.name}'; "
                "name the parameters instead, such as params='blocks.*.attn'"
            )
    return sorted(owners)


def _within(inner: str, outer: str) -> bool:
    return inner == outer or outer == "" or inner.startswith(outer + ".")
