"""A hook of mkdocs: shows notebooks as pages, with the outputs they hold. Nothing is executed."""

from pathlib import PurePosixPath

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter


class NotebookPage(File):
    """A notebook that links and the navigation know by its own name, and mkdocs treats as a page."""

    def is_documentation_page(self) -> bool:
        """As a Markdown file is."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put a page, and its figures as files beside it, in the place of every notebook."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            files.remove(file)
            for made in _pages(file, config):
                files.append(made)
    return files


def _pages(file: File, config: MkDocsConfig) -> list[File]:
    name = PurePosixPath(file.src_uri)
    notebook = nbformat.reads(file.content_string, as_version=4)
    where = {"output_files_dir": f"{name.stem}_files", "unique_key": name.stem}
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources=where)
    page = NotebookPage.generated(config, file.src_uri, content=text)
    figures = [
        File.generated(config, str(name.parent / figure), content=content)
        for figure, content in resources["outputs"].items()
    ]
    return [page, *figures]
