from collections.abc import Iterator

import pytest

from vitscope.training.checkpoint import Progress
from vitscope.training.collective import timed


class Clock:
    """Goes on only when told to, so that no other program can lengthen what is measured."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("vitscope.training.collective.time", made)
    return made


def slow(clock: Clock) -> Iterator[int]:
    for i in range(3):
        clock.now += 0.05
        yield i


def test_only_the_time_until_a_batch_is_there_counts(clock: Clock) -> None:
    progress = Progress()
    found = []
    for batch in timed(slow(clock), progress):
        clock.now += 0.1  # a step
        found.append(batch)
    assert found == [0, 1, 2]
    assert progress.waited == pytest.approx(0.15)


def test_errors_pass_and_their_time_counts(clock: Clock) -> None:
    def broken() -> Iterator[int]:
        clock.now += 0.05
        raise KeyError("gone")
        yield 0

    progress = Progress()
    with pytest.raises(KeyError):
        list(timed(broken(), progress))
    assert progress.waited == pytest.approx(0.05)
