"""`vitscope serve RUNS`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from vitscope.core.arguments import Port


@dataclass(frozen=True)
class Options:
    """Pages of a folder of runs, with an index that follows those under way; Ctrl-C ends it."""

    runs: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")] = Path("runs")
    """The folder; nothing outside of it is served, nothing in it is changed."""
    host: str = "127.0.0.1"
    """Address to listen on; the default is reachable from this machine only."""
    port: Port = 8321
    """Port to listen on; 0: a free one."""
    token: str | None = None
    """What requests must carry; default: none on this machine, and one that is made and printed beyond it."""


def run(options: Options) -> None:
    """Serve until Ctrl-C."""
    from vitscope.serve import serve_until_asked

    serve_until_asked(options.runs, options.host, options.port, options.token)
