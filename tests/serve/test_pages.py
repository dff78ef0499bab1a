import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.serve.conftest import epoch
from vitscope.core.errors import VitscopeError
from vitscope.serve.index import Index
from vitscope.serve.pages import Busy, PageCache, Pages, percent, policy_of


def test_the_index_escapes_names(runs: Path) -> None:
    with Pages(Index(runs)) as pages:
        front = pages.front()
    assert "&lt;b&gt;net&lt;/b&gt;" in front
    assert "<b>net" not in front
    assert 'href="/run/a/exam"' in front
    assert "secret" not in front


def test_a_report_is_kept_until_the_run_changes(runs: Path) -> None:
    run = runs / "a" / "exam"
    with Pages(Index(runs)) as pages:
        page = pages.report(run)
        assert page.count("<svg") >= 1
        assert '<a href="/">all runs</a>' in page
        assert pages.report(run) is page
        os.utime(run / "run.json")
        assert pages.report(run) is not page


def test_a_training_is_shown_row_by_row(runs: Path) -> None:
    with Pages(Index(runs)) as pages:
        found = pages.progress(runs / "train")
        assert dict(zip(found["columns"], found["rows"][0], strict=True))["accuracy"] == "0.51"
        assert "/curve/train?epochs=1" in pages.training(runs / "train")
        curve = pages.curve(runs / "train")
        assert curve is not None
        assert b"<svg" in curve
        assert pages.curve(runs / "a" / "exam") is None  # no training there
        assert percent(found["entry"]) == "51.0\u00a0% [40.0,\u00a060.0]"


def test_the_policy_of_a_page() -> None:
    meta = '<meta http-equiv="Content-Security-Policy" content="script-src &#39;sha256-x&#39;">'
    assert policy_of(meta) == "script-src 'sha256-x'"
    assert policy_of("<p>") == policy_of("") != ""
    assert "script" not in policy_of("<p>")


def test_a_curve_is_kept_until_the_run_changes(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Path] = []

    def draw(folder: Path) -> bytes:
        drawn.append(folder)
        return b"<svg"

    monkeypatch.setattr("vitscope.serve.pages._draw_curve", draw)
    pages = Pages(Index(runs))
    for _ in range(3):
        assert pages.curve(runs / "train") == b"<svg"
    assert len(drawn) == 1
    with open(runs / "train" / "metrics.csv", "a") as file:
        file.write(epoch(2))
    pages.curve(runs / "train")
    assert len(drawn) == 2


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    kept: PageCache[str] = PageCache(2)
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    made: list[str] = []

    def make(folder: Path) -> str:
        made.append(folder.name)
        return folder.name

    for folder in (one, two, one, three, one):
        assert kept.get(folder, nullcontext, make) == folder.name
    assert made == ["one", "two", "three"]
    kept.get(two, nullcontext, make)  # was forgotten
    kept.get(two, nullcontext, make)
    assert made == ["one", "two", "three", "two"]
    two.mkdir()
    (two / "run.json").write_text("{}")
    kept.get(two, nullcontext, make)  # is another one now
    assert made == ["one", "two", "three", "two", "two"]


def test_few_wait_for_a_page(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told to come again, so that there are always threads left for the index."""
    monkeypatch.setattr("vitscope.serve.pages.MOST_WAITING", 1)
    pages = Pages(Index(runs))

    def another(folder: Path) -> bytes:
        with pytest.raises(Busy, match="ask again"):
            pages.curve(runs / "a" / "exam")
        return b"<svg"

    monkeypatch.setattr("vitscope.serve.pages._draw_curve", another)
    assert pages.curve(runs / "train") == b"<svg"


def test_a_link_out_of_what_is_served_is_not_read(runs: Path) -> None:
    run = runs / "a" / "exam"
    table = run / "exams" / "prediction" / "more.csv"
    table.symlink_to(runs.parent / "outside" / "secret.csv")
    with pytest.raises(VitscopeError, match=r"more\.csv is a link that leads out"):
        Pages(Index(runs)).report(run)
