"""Files of a run folder are what was written, or are refused; a writer that dies at any moment damages nothing."""

import contextlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vitscope.core.errors import BadResult
from vitscope.results.manifest import FILE, damage, file_sum, write_listed


def test_what_was_written_is_whole(tmp_path: Path) -> None:
    write_listed(tmp_path, {"a": b"one", "below/b": "two"})
    assert (tmp_path / "below" / "b").read_text() == "two"
    assert [damage(tmp_path, name) for name in ("a", "below/b")] == [None, None]
    assert json.loads((tmp_path / FILE).read_text())["files"]["a"] == [file_sum(tmp_path / "a")]


def test_every_bit_counts(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4
    write_listed(tmp_path, {"a": content})
    draw = random.Random(0)
    for _ in range(50):
        changed = bytearray(content)
        changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        (tmp_path / "a").write_bytes(changed)
        assert "it has changed since it was written" in (damage(tmp_path, "a") or "")
    (tmp_path / "a").write_bytes(content[:-1])
    assert damage(tmp_path, "a")


def test_what_is_not_listed_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    assert damage(tmp_path, "a") is None
    write_listed(tmp_path, {"b": b"new"})
    assert damage(tmp_path, "a") is None


def test_the_present_file_is_kept_under_another_name(tmp_path: Path) -> None:
    for content in (b"1", b"2", b"3"):
        write_listed(tmp_path, {"last": content}, keep_as={"last": "previous"})
    assert ((tmp_path / "last").read_bytes(), (tmp_path / "previous").read_bytes()) == (b"3", b"2")
    assert damage(tmp_path, "last") is damage(tmp_path, "previous") is None
    (tmp_path / "previous").write_bytes(b"1")
    assert damage(tmp_path, "previous")


@pytest.mark.parametrize("listed", [True, False])
def test_a_writer_that_dies_at_any_moment_leaves_whole_files(
    tmp_path: Path, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any renaming, once and then again: what is there is either generation, and none looks damaged."""
    replace = os.replace
    for first in range(7):
        for second in range(7):
            folder = tmp_path / f"{first}-{second}-{listed}"
            _begin(folder, listed)
            for number, (content, dies_at) in enumerate([(b"2", first), (b"3", second)]):
                monkeypatch.setattr(os, "replace", _dying(replace, dies_at))
                with contextlib.suppress(KeyboardInterrupt):
                    write_listed(folder, {"last": content, "readable": b"r"}, keep_as={"last": "previous"})
                monkeypatch.setattr(os, "replace", replace)
                there = {name for name in ("last", "previous") if (folder / name).exists()}
                assert there, (first, second, number)
                assert {damage(folder, name) for name in (*there, "readable")} == {None}, (first, second)
                newest = (folder / ("last" if "last" in there else "previous")).read_bytes()
                assert newest in (b"1", b"2", b"3")


def _begin(folder: Path, listed: bool) -> None:
    folder.mkdir()
    if listed:
        write_listed(folder, {"last": b"1"})
    else:  # as a version without a manifest has left it
        (folder / "last").write_bytes(b"1")


def _dying(replace: Callable[..., None], at: int) -> Callable[..., None]:
    left = [at]

    def renamed(source: Any, target: Any) -> None:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        replace(source, target)

    return renamed


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', '{"schema": 1, "files": 3}'])
def test_a_damaged_manifest_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(BadResult, match=r"manifest\.json is damaged"):
        damage(tmp_path, "a")


def test_a_newer_manifest_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"schema": 99, "files": {}}')
    with pytest.raises(BadResult, match="pip install -U"):
        damage(tmp_path, "a")
