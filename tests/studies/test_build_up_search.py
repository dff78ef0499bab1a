import itertools

import pytest

from vitscope.studies.build_up_search import Position, upcoming


def walk(room, budget, improves) -> list[tuple[tuple[int, ...], bool]]:
    """The candidates that are tried and whether they are kept, if `improves(counts)` decides."""
    position = Position(room, budget, (0,) * len(room), len(room) - 1)
    tried = []
    while position.proposal is not None:
        counts = position.proposal[1]
        tried.append((counts, improves(counts)))
        position = position.after(improves(counts))
    return tried


def test_what_the_paper_found():
    """Two MSAs in the last stage, one in the third where a second harms, one in the second: 0, 1, 1, 2."""
    assert walk((1, 2, 3, 2), 4, lambda counts: counts[2] < 2) == [
        ((0, 0, 0, 1), True),
        ((0, 0, 0, 2), True),
        ((0, 0, 1, 2), True),
        ((0, 0, 2, 2), False),
        ((0, 1, 1, 2), True),
    ]


def test_all_improve_goes_alternately_from_the_end():
    tried = walk((1, 2, 3, 2), 99, lambda counts: True)
    assert [counts for counts, _ in tried] == [
        (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 1, 2), (0, 0, 2, 2), (0, 0, 3, 2), (0, 1, 3, 2), (0, 2, 3, 2), (1, 2, 3, 2),
    ]  # fmt: skip


def test_none_improves_tries_the_end_of_every_stage():
    tried = walk((1, 0, 3, 2), 4, lambda counts: False)
    assert [counts for counts, _ in tried] == [(0, 0, 0, 1), (0, 0, 1, 0), (1, 0, 0, 0)]


@pytest.mark.parametrize("budget", [1, 3, 6])
def test_whatever_happens_it_ends_within_the_budget_and_tries_nothing_twice(budget):
    room = (1, 2, 2)
    for answers in itertools.product([True, False], repeat=6):
        verdicts = iter(answers)
        position = Position(room, budget, (0, 0, 0), 2)
        tried = []
        while position.proposal is not None:
            tried.append(position.proposal[1])
            position = position.after(next(verdicts))
        assert len(set(tried)) == len(tried)
        assert sum(position.kept) <= budget
        assert all(count <= most for count, most in zip(position.kept, room, strict=True))


def test_upcoming_is_the_proposal_its_fall_back_then_what_follows():
    position = Position((1, 1, 1, 2), 4, (0, 0, 0, 0), 3)
    assert upcoming(position, 1) == [(0, 0, 0, 1)]
    assert upcoming(position, 2) == [(0, 0, 0, 1), (0, 0, 1, 0)]
    assert upcoming(position, 4) == [(0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 0, 2), (0, 1, 0, 0)]
    assert upcoming(Position((1, 1), 1, (0, 1), 1), 3) == []


def test_what_is_decided_next_was_always_begun_on_speculation():
    """Whichever way a decision goes, of three that are under way one is the next."""
    position = Position((1, 2, 3, 2), 6, (0, 0, 0, 0), 3)
    while position.proposal is not None:
        begun = upcoming(position, 3)
        for improved in (True, False):
            following = position.after(improved).proposal
            assert following is None or following[1] in begun
        position = position.after(sum(position.kept) % 2 == 0)
