import socket
from pathlib import Path

import pytest

from vitscope.core.errors import VitscopeError
from vitscope.serve import serve


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(VitscopeError, match="--port 0"):
            serve(tmp_path, port=taken.getsockname()[1])


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(VitscopeError, match="no folder"):
        serve(tmp_path / "absent")
