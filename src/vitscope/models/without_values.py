"""Models without values: on the meta device, where weights take no memory and nothing is computed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOADED_IN_VAIN = r"for .*: copying from a non-meta parameter in the checkpoint to a meta parameter"


@contextmanager
def without_values() -> Iterator[None]:
    """Inside, models are built on the meta device; that weights which a factory loads have no effect is not said."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.filterwarnings("ignore", _LOADED_IN_VAIN, UserWarning)
        yield
