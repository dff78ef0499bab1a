"""A feature map as points, in whichever order memory has them: copying a map costs more than measuring it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

Centred = tuple[Tensor, Tensor, bool]
_shared: ContextVar[dict[int, Centred] | None] = ContextVar("shared", default=None)


@contextmanager
def centred_once() -> Iterator[None]:
    """Inside the block a map is centred once, however often it is asked for; it must not change meanwhile."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def centred_points(feature: Tensor) -> Centred:
    """A map (N, C, H, W) less its mean over points, in float32; not to be written to.

    Returns:
        The centred map: (N, points, C) where memory runs over channels first, as in a transformer, else
        (N, C, points); the mean over points, of the same number of axes; and whether it is the first of the two.
    """
    shared = _shared.get()
    if shared is not None and id(feature) in shared:
        return shared[id(feature)]
    points = feature.flatten(2).float()
    channels_last = feature.shape[1] > 1 and points.stride(1) == 1
    if channels_last:
        points = points.transpose(1, 2)
    mean = points.mean(1 if channels_last else 2, keepdim=True)
    found = points - mean, mean, channels_last
    if shared is not None:
        shared[id(feature)] = found
    return found
