"""The notebooks: their cells run, and what is kept of them is what a reader should see."""

import re

import nbformat
import pytest

from tests.notebooks import NOTEBOOKS, execute

NAMES = [path.stem for path in NOTEBOOKS]
MACHINE = re.compile(r"/(?:home|root|tmp|work|Users|usr|opt)/|\bat 0x[0-9a-f]+|Traceback|Warning\b|\x1b")


def test_there_are_notebooks():
    assert NAMES == ["how-vision-transformers-work", "your-own-model"]


@pytest.mark.slow  # what your-own-model does, its page says too, and test_own_model.py runs what the page says
@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_every_cell_runs(path, tmp_path):
    """On few images; a cell that fails raises, and names itself."""
    assert not _told(execute(path, tmp_path, images=20)), "the cells write to stderr"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_the_outputs_are_there_and_fit_to_read(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "not executed in order"
    assert sum("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)
    assert not _told(notebook)
    for text in _texts(notebook):
        assert not (found := MACHINE.search(text)), f"{found} in: {text[:200]}"
    assert path.stat().st_size < 600_000


def _told(notebook: nbformat.NotebookNode) -> list[str]:
    """What cells said on stderr."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [output.text for output in outputs if output.get("name") == "stderr"]


def _texts(notebook: nbformat.NotebookNode) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    said = [output.text for output in outputs if "text" in output]
    data = [
        content
        for output in outputs
        for kind, content in output.get("data", {}).items()
        if kind.startswith("text/")
    ]
    return said + data
