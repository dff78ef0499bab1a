"""What is served, and under which headers. Everything is read-only: no route answers anything but GET and HEAD."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitscope.core.errors import BadResult, VitscopeError
from vitscope.results.plain_files import is_shortage
from vitscope.serve.access import Guarded, below
from vitscope.serve.pages import Busy, Pages, policy_of

ASSETS = Path(__file__).parent / "templates"
_STATIC = {"serve.css": "text/css", "index.js": "text/javascript", "training.js": "text/javascript"}
# Kinds of files that a run holds for people and tools; weights and states are not handed out.
_FILES = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".yaml": "text/plain",
}
_OWN = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'"
# A file of a run may show itself, but is of no origin: what it contains cannot read other runs.
_INLINE = "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_FILE = f"default-src 'none'; {_INLINE}; sandbox allow-scripts"
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",  # runs are live
    "content-security-policy": f"{_OWN}; form-action 'none'; frame-ancestors 'none'",
}


class AnyPath(PathConvertor):
    """Names of folders may hold line breaks."""

    regex = "(?s:.*)"


register_url_convertor("any_path", AnyPath())


def make_app(pages: Pages, hosts: list[str], token: str | None = None, cookie: str = "token") -> ASGIApp:
    """The application.

    Args:
        pages: Of the folder whose runs are shown.
        hosts: Names by which the server may be called: a page of another site cannot reach it by a name of its own.
        token: What a request has to carry; None: nothing.
        cookie: Name of the one that keeps it.
    """

    def in_run(answer: Callable[[Path], Response]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            folder = pages.index.find(request.path_params["path"])
            return _absent("no such run") if folder is None else answer(folder)

        return endpoint

    def front(request: Request) -> Response:
        return HTMLResponse(pages.front())

    def runs(request: Request) -> Response:
        return JSONResponse({"runs": [entry.plain() for entry in pages.index.entries()]})

    def static(request: Request) -> Response:
        name = request.path_params["name"]
        return FileResponse(ASSETS / name, media_type=_STATIC[name]) if name in _STATIC else _absent()

    def run(folder: Path) -> Response:
        entry = pages.index.entry(folder)
        if not entry.exams or entry.state == "damaged":
            return training(folder)
        try:
            page = pages.report(folder)
        except BadResult as error:  # there is nothing of it that can be shown
            return HTMLResponse(pages.training(folder, str(error)))
        headers = {"content-security-policy": f"{policy_of(page)}; frame-ancestors 'none'"}
        if entry.state == "running":
            headers["refresh"] = "10"
        return HTMLResponse(page, headers=headers)

    def training(folder: Path) -> Response:
        return HTMLResponse(pages.training(folder))

    def progress(folder: Path) -> Response:
        facts = pages.progress(folder)
        return JSONResponse({**facts, "entry": facts["entry"].plain()})

    def curve(folder: Path) -> Response:
        figure = pages.curve(folder)
        if figure is None:
            return _absent("no finished epoch")
        return Response(figure, media_type="image/svg+xml")

    def file(request: Request) -> Response:
        path = below(pages.index.root, request.path_params["path"])
        if path is None or not path.is_file() or path.suffix not in _FILES:
            return _absent()
        headers = {"content-security-policy": f"{_FILE}; frame-ancestors 'none'"}
        return FileResponse(path, media_type=_FILES[path.suffix], headers=headers)

    routes = [
        Route("/", front),
        Route("/runs.json", runs),
        Route("/static/{name}", static),
        Route("/run/{path:any_path}", in_run(run)),
        Route("/training/{path:any_path}", in_run(training)),
        Route("/progress/{path:any_path}", in_run(progress)),
        Route("/curve/{path:any_path}", in_run(curve)),
        Route("/files/{path:any_path}", file),
    ]

    async def explain(request: Request, error: Exception) -> Response:
        if is_shortage(error) or isinstance(error, Busy):
            reason = str(error) if isinstance(error, Busy) else "the server has too much to do"
            return PlainTextResponse(f"not now: {reason}\n", status_code=503, headers={"retry-after": "5"})
        reason = str(error).replace(str(pages.index.root), ".")  # where the folder is, is nobody's business
        if not isinstance(error, VitscopeError):
            reason = f"{type(error).__name__}: {reason}"
        return PlainTextResponse(f"this run cannot be shown: {reason[:1000]}\n", status_code=500)

    called = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts)]
    if token is not None:
        called.append(Middleware(Guarded, token=token, cookie=cookie))
    handlers: dict[Any, Any] = {VitscopeError: explain, Exception: explain}
    app = Starlette(routes=routes, middleware=called, exception_handlers=handlers)
    app.router.redirect_slashes = False  # `/run` is nothing, whoever asks and how
    return Headers(app)


class Headers:
    """Adds the headers that every answer has, errors too, unless it has its own; the last to see an error."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and complete the answer."""

        async def send_completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                own = [(k.encode(), v.encode()) for k, v in _ALWAYS.items() if k.encode() not in there]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        with suppress(Exception):  # it has been answered; nobody reads a traceback here
            await self.app(scope, receive, send_completed)


def _absent(what: str = "not found") -> Response:
    return PlainTextResponse(f"{what}\n", status_code=404)
