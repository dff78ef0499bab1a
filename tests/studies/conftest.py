from pathlib import Path

import pytest

from tests.report.conftest import runs
from tests.studies.tiny_study import JOBS, done_here, tiny_study

__all__ = ["runs"]


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store after a study that nothing has disturbed, done in this process; its tables lie in `out` beside it."""
    folder = tmp_path_factory.mktemp("reference")
    done = done_here(tiny_study(), folder / "store", folder / "out")
    assert [task.state for task in done.report.tasks.values()] == ["done"] * JOBS
    return folder / "store"
