from pathlib import Path

import pytest

from tests.made_once import made_once
from tests.report.conftest import runs
from tests.studies.tiny_study import JOBS, done_here, tiny_study

__all__ = ["runs"]


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store after a study that nothing has disturbed, done in one process; its tables lie in `out` beside it."""
    return made_once(tmp_path_factory, "reference", complete_study) / "store"


def complete_study(folder: Path) -> None:
    done = done_here(tiny_study(), folder / "store", folder / "out")
    assert [task.state for task in done.report.tasks.values()] == ["done"] * JOBS
