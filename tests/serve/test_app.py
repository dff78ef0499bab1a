"""A real server process, asked over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.conftest import epoch
from tests.serve.server import Server
from vitscope.results import Run


@pytest.fixture
def server(runs: Path) -> Iterator[Server]:
    with Server(runs, anew=True) as made:
        yield made


def test_over_http(
    server: Server, runs: Path
) -> None:  # one new interpreter for all: it takes seconds to start
    _pages_and_headers(server)
    _nothing_else(server)
    _nothing_is_written(server, runs)
    _follows_a_training(server, runs)
    _report(server)
    _ends_on_interrupt(server)


def _pages_and_headers(server: Server) -> None:
    front = server.ask("/")
    assert front.status == 200
    assert "&lt;b&gt;net&lt;/b&gt;" in front.text
    for path in (
        "/",
        "/runs.json",
        "/static/index.js",
        "/training/train",
        "/files/a/exam/run.json",
        "/absent",
    ):
        headers = server.ask(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "server" not in headers
    scripts = front.headers["content-security-policy"]
    assert "script-src 'self'" in scripts
    assert "unsafe" not in scripts
    assert {run["path"] for run in json.loads(server.ask("/runs.json").body)["runs"]} == {
        "a/exam",
        "train",
        "broken",
    }
    table = server.ask("/files/a/exam/exams/prediction/prediction.csv")
    assert table.headers["content-type"].startswith("text/csv")
    assert "accuracy" in table.text
    assert "sandbox" in table.headers["content-security-policy"]
    head = server.ask("/", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert server.ask("/curve/train").headers["content-type"].startswith("image/svg+xml")


def _nothing_else(server: Server) -> None:
    ways = ["..", "%2e%2e", ".%2e", "%2e%2e%2f..", "..%5c", "%252e%252e", "a/%2e%2e/%2e%2e"]
    for route in ("files", "run", "training", "progress", "curve", "static"):
        for way in ways:
            answer = server.ask(f"/{route}/{way}/outside/secret.csv")
            assert answer.status == 404, way
            assert b"secret" not in answer.body
    for path in (
        "/files//etc/passwd",
        "/files/%2fetc/passwd",
        "/files/secret.csv",
        "/files/linked/secret.csv",
        "/files/leaking/metrics.csv",
        "/files/train/.lock",
        "/files/notes.txt",
        "/files/a",
        "/files/",
        "/run",
        "/progress",
        "/run/linked",
        "/run/leaking",
        "/progress/leaking",
        "/static/index.html",
        "/static/..%2fapp.py",
    ):
        assert server.ask(path).status == 404, path
    assert server.ask("/", host="evil.example").status == 400  # a name of another site that leads here


def _nothing_is_written(server: Server, runs: Path) -> None:
    before = {path: path.lstat().st_mtime_ns for path in runs.rglob("*")}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        for path in ("/", "/runs.json", "/run/train", "/files/a/exam/run.json"):
            assert server.ask(path, method).status == 405
    assert {path: path.lstat().st_mtime_ns for path in runs.rglob("*")} == before


def _follows_a_training(server: Server, runs: Path) -> None:
    def now() -> dict[str, object]:
        return json.loads(server.ask("/progress/train").body)["entry"]

    assert (now()["state"], now()["epochs"], now()["accuracy"]) == ("done", 1, 0.51)
    with Run.start(runs / "train", options={"data": "fashion"}, model={"name": "vit_mini"}):
        assert now()["state"] == "running"
        with open(runs / "train" / "metrics.csv", "a") as file:
            file.write(epoch(2))
        assert (now()["epochs"], now()["accuracy"]) == (2, 0.52)
        assert "0.52" in server.ask("/run/train").text
        states = {run["path"]: run["state"] for run in json.loads(server.ask("/runs.json").body)["runs"]}
        assert states["train"] == "running"
    assert now()["state"] == "done"


def _report(server: Server) -> None:
    page = server.ask("/run/a/exam")
    assert page.status == 200
    assert "&lt;b&gt;net&lt;/b&gt;" in page.text
    assert "<svg" in page.text
    assert page.headers["content-security-policy"].endswith("frame-ancestors 'none'")
    assert server.ask("/run/a/exam").body == page.body
    broken = server.ask("/run/broken")
    assert broken.status == 200
    assert "damaged" in broken.text


def _ends_on_interrupt(server: Server) -> None:
    assert server.end() == (130, "")
    with pytest.raises(ConnectionRefusedError):
        server.ask("/")
