"""Executes the notebooks of the documentation: `python -m tests.notebooks --write docs/notebooks`.

They are run in an empty folder, so that they depend on nothing but the package. What is kept of the outputs is what a
reader sees at the end: progress bars, which are gone by then, and times are taken out.
"""

import argparse
import os
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
IMAGES = "VITSCOPE_IMAGES"  # the notebooks read from it how many images to look at
BAR = re.compile(r"[^\r\n]*\d+%\|[^\r\n]*|[ \r\n]+|\x1b\[A")


def execute(path: Path, folder: Path, images: int | None = None) -> NotebookNode:
    """The notebook with new outputs; a cell that fails raises.

    Args:
        path: The notebook.
        folder: Where it runs.
        images: How many images it looks at; default: as many as it says.
    """
    notebook = nbformat.read(path, as_version=4)
    # nbclient brings no widgets, and a library that would like some says so
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}
    environment.pop(IMAGES, None)
    if images is not None:
        environment[IMAGES] = str(images)
    client = NotebookClient(
        notebook, timeout=3600, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=environment)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_bar(output)]
    notebook.metadata.language_info.pop("version", None)  # of the machine's Python
    return notebook


def _is_bar(output: NotebookNode) -> bool:
    return output.get("name") == "stderr" and not BAR.sub("", output.text)


def main() -> None:
    """Execute all notebooks and write them with what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True, help="folder of the notebooks")
    for path in sorted(parser.parse_args().write.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path, Path(folder))
        nbformat.write(notebook, path)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
