"""The class of one module with a mixin, made while the program runs, and the way back.

torch swaps the classes of modules, too: a parametrised module (`weight_norm`, `spectral_norm`) is of a subclass that
torch made for it alone, and takes to be on top. So a mixin goes below such a class, and comes out from below it:

    ParametrizedConv2d -> Conv2d          becomes          ParametrizedGraftedConv2d -> GraftedConv2d -> Mixin, Conv2d
"""

from typing import Any

from torch.nn.utils import parametrize


def with_mixin(cls: type, mixin: type, prefix: str) -> type:
    """`cls` with the mixin, below what torch has put over it."""
    if _is_parametrised(cls):
        return _over(cls, tuple(with_mixin(base, mixin, prefix) for base in cls.__bases__))
    subclasses: list[type] = cls.__subclasses__()
    made = [one for one in subclasses if one.__bases__ == (mixin, cls)]
    return (
        made[0] if made else type(f"{prefix}{cls.__name__}", (mixin, cls), {"__module__": mixin.__module__})
    )


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
