"""Where others than this machine can ask, a token is needed; how it is judged where a server listens."""

import socket
from pathlib import Path

import pytest

from tests.serve.server import Server
from vitscope.cli.app import main
from vitscope.core.errors import VitscopeError
from vitscope.serve import serve
from vitscope.serve.access import check_token, is_loopback

TOKEN = "correct-horse-battery"


@pytest.mark.parametrize("host", ["", " ", "\t"])
def test_an_empty_host_is_refused(tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path), "--host", host]) == 2
    assert "--host 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a\0b", "x" * 300, "..", "256.256.256.256"])
def test_hosts_that_are_none_are_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(VitscopeError, match=r"cannot listen on|it holds a zero byte"):
        serve(tmp_path, host, 0)


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_ports_that_are_none_are_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(VitscopeError, match="port is"):
        serve(tmp_path, port=port)


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.0.0.2", True), ("localhost", True), ("0.0.0.0", False), ("0", False)],
)
def test_loopback_is_judged_by_where_a_socket_listens(host: str, own: bool) -> None:
    with socket.socket() as made:
        made.bind((host, 0))
        assert is_loopback(made) == own


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "x" * 201, "with a space in it", "ümlaut" * 5, "a" * 20 + "\n"]
)
def test_tokens_that_are_none_are_refused(token: str) -> None:
    with pytest.raises(VitscopeError, match="the token is too short"):
        check_token(token)


@pytest.mark.parametrize(
    "options", [("--host", "0.0.0.0"), ("--token", TOKEN), ("--host", "0", "--token", TOKEN)]
)
def test_only_who_has_the_token_is_answered(runs: Path, options: tuple[str, ...]) -> None:
    with Server(runs, *options) as server:
        assert server.token is not None
        assert "--token" not in options or server.token == TOKEN
        for path in (
            "/",
            "/runs.json",
            "/static/index.js",
            "/run/train",
            "/files/a/exam/run.json",
            "/absent",
        ):
            refused = server.ask(path)
            assert refused.status == 401, path
            assert b"train" not in refused.body
            assert refused.headers["x-content-type-options"] == "nosniff"
        for wrong in (
            "",
            "x",
            server.token[:-1],
            server.token + "x",
            server.token.upper() + "_",
            "%00",
            "%ff",
        ):
            assert server.ask(f"/?token={wrong}").status == 401, wrong
            assert server.ask("/", Authorization=f"Bearer {wrong}").status == 401, wrong
        assert server.ask("/", Authorization=f"Basic {server.token}").status == 401
        assert server.ask("/", Cookie='token="; ;=').status == 401
        first = server.ask(f"/?token={server.token}")
        assert first.status == 200
        kept = first.headers["set-cookie"]
        assert "HttpOnly" in kept
        assert "SameSite=Strict" in kept
        assert server.ask("/runs.json", Cookie=kept.partition(";")[0]).status == 200
        assert server.ask("/runs.json", Authorization=f"Bearer {server.token}").status == 200
        assert server.end()[1] == ""


def test_this_machine_needs_none(runs: Path) -> None:
    with Server(runs) as server:
        assert server.token is None
        assert server.ask("/").status == 200
