"""Parts of an exam under way: kept, found again, forgotten."""

import pytest
import torch

from vitscope.engine.finished_parts import FOLDER, Parts


def part(number: float) -> dict[str, torch.Tensor]:
    return {"sums": torch.full((2, 3), number, dtype=torch.float64), "n": torch.tensor(7)}


def test_parts_are_found_again_by_the_same_key_only(tmp_path):
    with Parts(tmp_path, "corruption", "key") as parts:
        assert parts.finished(["fog 1", "fog 2"]) == {}
        parts.put("fog 1", part(1.0))
        parts.put("snow 3", part(2.0))
    found = Parts(tmp_path, "corruption", "key").finished(["fog 1", "fog 2"])
    assert list(found) == ["fog 1"]
    assert torch.equal(found["fog 1"]["sums"], part(1.0)["sums"])
    assert Parts(tmp_path, "corruption", "other").finished(["fog 1"]) == {}
    assert Parts(tmp_path, "landscape", "key").finished(["fog 1"]) == {}


def test_an_interruption_keeps_what_was_finished(tmp_path):
    def interrupted() -> None:
        with Parts(tmp_path, "e", "key") as parts:
            parts.put("a", part(1.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with Parts(tmp_path, "e", "key") as again:
        assert list(again.finished(["a", "b"])) == ["a"]
        again.put("b", part(2.0))
    assert sorted(Parts(tmp_path, "e", "key").finished(["a", "b"])) == ["a", "b"]


def test_cleared_parts_leave_nothing(tmp_path):
    with Parts(tmp_path, "e", "key") as parts:
        parts.put("a", part(1.0))
    assert (tmp_path / FOLDER).exists()
    parts.clear()
    assert not (tmp_path / FOLDER).exists()


def test_nothing_is_kept_without_a_key_or_a_folder(tmp_path):
    for parts in (Parts.nowhere(), Parts(tmp_path, "e", None)):
        with parts:
            parts.put("a", part(1.0))
        assert parts.finished(["a"]) == {}
    assert list(tmp_path.iterdir()) == []
