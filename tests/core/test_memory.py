"""Memory that is freed stays with the process, as long as it is asked to."""

import platform
import resource
from pathlib import Path

import pytest
import torch

from vitscope.core.tensors import give_back, kept_memory

PAGES = (64 << 20) // resource.getpagesize()  # of a tensor of 64 MB
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="memory is kept with glibc only")


def faults_of_a_tensor() -> int:
    """Pages that the system has to hand out for 64 MB that are written to and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(16 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@glibc
def test_a_later_tensor_takes_the_place_of_an_earlier_one() -> None:
    with kept_memory(torch.device("cpu")):
        faults = [faults_of_a_tensor() for _ in range(30)]  # the first ones take a few places in turn
    assert sum(faults[-5:]) < PAGES / 20
    assert sum(faults) > PAGES / 20


@glibc
def test_memory_is_held_inside_and_given_back_afterwards() -> None:
    with kept_memory(torch.device("cpu")):
        before = resident()
        torch.ones(16 << 20)
        inside = resident()
    assert inside - before > 50 << 20
    assert inside - resident() > 50 << 20


@glibc
def test_the_outermost_decides() -> None:
    with kept_memory(torch.device("cpu")):
        with kept_memory(torch.device("cpu")):
            before = resident()
            torch.ones(16 << 20)
        inside = resident()
    assert inside - before > 50 << 20
    assert inside - resident() > 50 << 20


def test_other_devices_are_left_alone() -> None:
    with kept_memory(torch.device("meta")):
        assert torch.ones(3).sum() == 3


@glibc
def test_what_lies_free_between_other_blocks_is_given_back() -> None:
    blocks = [torch.ones(1 << 14) for _ in range(1000)]  # 64 kB each: small enough to lie side by side
    kept = blocks[::2]
    del blocks
    before = resident()
    give_back(torch.device("cpu"))
    assert before - resident() > 16 << 20
    assert all(bool((block == 1).all()) for block in kept)
