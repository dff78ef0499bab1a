import subprocess
import sys
from pathlib import Path

import pytest

from vitscope.cli.app import main


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from vitscope.cli.app import main\n"
        f"sys.exit(main(['serve', {str(tmp_path)!r}]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert (
        found.stderr
        == "vitscope: serving needs uvicorn, which is not installed: pip install starlette uvicorn\n"
    )


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "absent")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
