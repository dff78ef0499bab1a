import os
from pathlib import Path

from vitscope.serve.index import Index
from vitscope.serve.pages import Pages, percent, policy_of


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
        assert percent(found["entry"]) == "51.0 % [40.0, 60.0]"


def test_the_policy_of_a_page() -> None:
    meta = '<meta http-equiv="Content-Security-Policy" content="script-src &#39;sha256-x&#39;">'
    assert policy_of(meta) == "script-src 'sha256-x'"
    assert policy_of("<p>") == policy_of("") != ""
    assert "script" not in policy_of("<p>")
