"""Who may ask for what: this machine; others only with a token, in the address that is opened first or in a header.

Requests reach real files below the served folder, and nothing else.
"""

import hmac
import ipaddress
import re
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitscope.core.errors import VitscopeError

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,200}")
_LOOPBACK_NAMES = ["127.0.0.1", "localhost", "::1", "[::1]"]


def check_token(token: str | None) -> str | None:
    """Refuse a token that could be guessed, or not be written in an address."""
    if token is not None and not _TOKEN.fullmatch(token):
        raise VitscopeError(
            "the token is too short or has other characters than letters, digits and . _ ~ -; expected 16 to 200 of "
            "them, for example --token $(openssl rand -hex 16), or leave it out: one is made where it is needed"
        )
    return token


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine reaches a socket, judged by where it really listens: "0" is everywhere, too."""
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def names_of(bound: socket.socket) -> list[str]:
    """Names by which the server may be called: on loopback, no page of another site reaches it by a name of its own."""
    own = str(bound.getsockname()[0])
    return [*_LOOPBACK_NAMES, own] if is_loopback(bound) else ["*"]


def make_token() -> str:
    """A new random token for the address of a server, 32 characters that nobody can guess."""
    return secrets.token_urlsafe(24)


class Guarded:
    """Lets requests pass with the token: `?token=`, `Authorization: Bearer`, or the cookie that the first one sets."""

    def __init__(self, app: ASGIApp, token: str, cookie: str) -> None:
        self._app, self._token, self._cookie = app, token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        in_address = self._is_right(_from_query(scope["query_string"]))
        in_header = [self._is_right(token) for token in _from_headers(scope["headers"], self._cookie)]
        if not (in_address or any(in_header)):
            refused = PlainTextResponse(
                "a token is needed: open the address that the server printed, or send the header "
                "'Authorization: Bearer TOKEN'\n",
                status_code=401,
                headers={"www-authenticate": "Bearer"},
            )
            await refused(scope, receive, send)
            return

        async def send_with_cookie(message: Message) -> None:
            if in_address and message["type"] == "http.response.start":
                cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
                message = {**message, "headers": [*message["headers"], (b"set-cookie", cookie.encode())]}
            await send(message)

        await self._app(scope, receive, send_with_cookie)

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())


def _from_query(query: bytes) -> str:
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=20).get("token", [""])[0]
    except ValueError:  # more fields than anybody needs
        return ""


def _from_headers(headers: list[tuple[bytes, bytes]], cookie: str) -> list[str]:
    found = []
    for name, value in headers:
        text = value.decode("latin-1")
        if name == b"authorization" and text.lower().startswith("bearer "):
            found.append(text[7:].strip())
        if name == b"cookie":
            try:
                known = SimpleCookie(text).get(cookie)
            except CookieError:
                continue
            found.append(known.value if known is not None else "")
    return found


def below(root: Path, asked: str) -> Path | None:
    """The file or folder that `asked`, a path with slashes, names below `root`; None if there is none such.

    Refused are absolute paths, `..`, names that begin with a dot (locks, files being written), and symbolic links that
    lead out of `root`, whatever the way they were written: the answer is judged by where it really is.
    """
    parts = [part for part in asked.split("/") if part]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    base = root.resolve()
    try:
        found = base.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError):  # absent, not readable, or a circle of links
        return None
    return found if found == base or base in found.parents else None
