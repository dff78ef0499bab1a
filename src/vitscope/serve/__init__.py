"""Pages of a folder of runs, over HTTP: an index, and a page per run that follows it while it is under way."""

import os
from pathlib import Path

from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import Terminated, exit_code

__all__ = ["serve"]

HOST, PORT = "127.0.0.1", 8321


@checked
def serve(root: str | os.PathLike[str], host: str = HOST, port: int = PORT, token: str | None = None) -> None:
    """Serve the runs below a folder until Ctrl-C.

    Args:
        root: The folder; nothing outside of it is served, and nothing in it is changed.
        host: The address to listen on; default: this machine only.
        port: The port; 0 takes a free one.
        token: What a request has to carry, in the address or a header; where others than this machine reach the
            server, one is made and printed if none is given.

    Raises:
        VitscopeError: No such folder, no such address, the port is taken, or what serving needs is not installed.
    """
    try:
        serve_until_asked(Path(root), host, port, token)
    except Terminated as asked:
        raise SystemExit(exit_code(asked)) from None
    except KeyboardInterrupt:
        return


def serve_until_asked(folder: Path, host: str, port: int, token: str | None) -> None:
    """The same, and leave with the KeyboardInterrupt by which it was asked to end."""
    if not folder.is_dir():
        raise VitscopeError(
            f"no folder '{folder}'; give the one that holds your runs, e.g. vitscope serve runs"
        )
    try:
        from vitscope.serve.server import run_server
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise VitscopeError(
            f"serving needs {error.name}, which is not installed: pip install starlette uvicorn"
        ) from error
    run_server(folder, host, port, token)
