"""Randomness as a function of where in a training one is.

Every draw is seeded by (seed, epoch, image) or (seed, epoch, step). So it depends neither on how many workers
load the images nor on whether the training was interrupted, and no state of a generator has to be kept.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

ORDER, IMAGE, STEP = 0, 1, 2
"""What a draw is for: the first number of its key."""


def seed_all(*key: int) -> None:
    """Seed the generators of Python, numpy and torch, on every device, by a key of non-negative numbers."""
    seed = seed_cpu(*key)
    if torch.accelerator.is_available():
        torch.manual_seed(seed)


def seed_cpu(*key: int) -> int:
    """Seed the generators that draw on the CPU, as `seed_all` does; returns torch's seed.

    `torch.manual_seed` would also note the seed, with a whole traceback, for devices that are not in use yet: that
    takes longer than augmenting a small image, and every call leaves one more note.
    """
    first, second, third = np.random.SeedSequence(key).generate_state(3)
    random.seed(int(first))
    np.random.seed(int(second))
    torch.default_generator.manual_seed(int(third))
    return int(third)


def seed_of(*key: int) -> int:
    """A seed for a generator of one's own."""
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def order(n: int, seed: int, epoch: int) -> list[int]:
    """The order in which an epoch goes through `n` images."""
    generator = np.random.default_rng(np.random.SeedSequence((ORDER, seed, epoch)))
    return [int(i) for i in generator.permutation(n)]


@contextmanager
def random_state_preserved() -> Iterator[None]:
    """Leave the generators of the caller as they were, also after an exception."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
