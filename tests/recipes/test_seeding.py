"""Every draw depends on its key and on nothing else."""

import random

import numpy as np
import pytest
import torch

from vitscope.recipes.seeding import order, random_state_preserved, seed_all, seed_cpu


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_same_key_same_draws_whatever_came_before() -> None:
    with random_state_preserved():
        seed_all(1, 2, 3)
        first = draws()
        draws()
        seed_all(1, 2, 3)
        assert draws() == first
        seed_all(1, 2, 4)
        assert all(a != b for a, b in zip(draws(), first, strict=True))


def test_order_is_a_permutation_that_changes_with_epoch_and_seed() -> None:
    orders = [order(50, 0, 0), order(50, 0, 1), order(50, 1, 0)]
    assert all(sorted(o) == list(range(50)) for o in orders)
    assert len({tuple(o) for o in orders}) == 3
    assert order(50, 0, 0) == orders[0]


def test_callers_generators_are_left_alone_also_after_an_error() -> None:
    with random_state_preserved():
        seed_all(5)
        expected = draws()
        seed_all(5)

        def fail_inside() -> None:
            with random_state_preserved():
                seed_all(9)
                draws()
                raise RuntimeError("inside")

        with pytest.raises(RuntimeError, match="inside"):
            fail_inside()
        assert draws() == expected


def test_the_cheap_seeding_of_images_draws_what_the_full_one_does() -> None:
    with random_state_preserved():
        seed_all(4, 5)
        expected = draws()
        assert torch.initial_seed() == seed_cpu(4, 5)
        assert draws() == expected


def test_seeding_leaves_nothing_behind_for_devices_that_are_not_used() -> None:
    if torch.cuda.is_initialized():
        pytest.skip("CUDA is in use here, so nothing is queued for it")
    with random_state_preserved():
        before = len(torch.cuda._queued_calls)
        for image in range(10):
            seed_cpu(1, image)
        assert len(torch.cuda._queued_calls) == before
