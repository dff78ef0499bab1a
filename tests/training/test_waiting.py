import time
from collections.abc import Iterator

import pytest

from vitscope.training.checkpoint import Progress
from vitscope.training.waiting import timed


def slow() -> Iterator[int]:
    for i in range(3):
        time.sleep(0.05)
        yield i


def test_only_the_time_until_a_batch_is_there_counts() -> None:
    progress = Progress()
    found = []
    for batch in timed(slow(), progress):
        time.sleep(0.1)  # a step
        found.append(batch)
    assert found == [0, 1, 2]
    assert 0.15 <= progress.waited < 0.3  # with the steps it would be 0.45 or more


def test_errors_pass_and_their_time_counts() -> None:
    def broken() -> Iterator[int]:
        time.sleep(0.05)
        raise KeyError("gone")
        yield 0

    progress = Progress()
    with pytest.raises(KeyError):
        list(timed(broken(), progress))
    assert progress.waited >= 0.05
