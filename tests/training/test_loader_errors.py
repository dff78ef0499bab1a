"""What comes out of a DataLoader's processes, in one line. Whole trainings with it: test_readable.py."""

import os

import pytest
from torch.utils.data import DataLoader, Dataset

from vitscope.core.errors import BadData
from vitscope.training.broken_images import loading_explained


class Failing(Dataset[int]):
    def __init__(self, how: str) -> None:
        self.how = how

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 2 and self.how == "bad":
            raise BadData("image 2: broken; replace it")
        if index == 2 and self.how == "other":
            raise ValueError("a bug")
        if index == 2 and self.how == "exit":
            os._exit(1)
        return index


@pytest.mark.parametrize("workers", [0, 1])
def test_ours_is_told_without_the_traceback_of_the_worker(workers: int) -> None:
    with pytest.raises(BadData) as caught, loading_explained():
        list(DataLoader(Failing("bad"), num_workers=workers))
    assert str(caught.value) == "image 2: broken; replace it"


def test_a_worker_that_is_gone() -> None:
    """Which error tells of it first depends on what it was doing, and on who is faster."""
    with pytest.raises(BadData, match=r"has died \(\w*Error.*\): .*--workers 0"), loading_explained():
        list(DataLoader(Failing("exit"), num_workers=1))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."),
            "RuntimeError: DataLoader worker",
        ),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "ConnectionResetError: [Errno 104] Connection",
        ),
        (EOFError(), "EOFError)"),
    ],
)
def test_each_of_the_errors_that_tell_of_it(error: Exception, reason: str) -> None:
    with pytest.raises(BadData) as caught, loading_explained():
        raise error
    assert str(caught.value).startswith(f"a process that loads images has died ({reason}")


def test_other_errors_are_left_alone() -> None:
    with pytest.raises(ValueError, match="a bug"), loading_explained():
        list(DataLoader(Failing("other"), num_workers=1))
    with pytest.raises(RuntimeError, match="of another kind"), loading_explained():
        raise RuntimeError("of another kind")
