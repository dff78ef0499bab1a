"""The documentation: its code runs, its commands are understood, its links lead somewhere."""

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.exam_lists import rooms
from tests.processes import run
from vitscope.cli.app import VERBS, read_options

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(?: {4}|\$ )+(?:\$ )?(vitscope [a-z].*)$", re.MULTILINE)


def test_python_blocks_run(tmp_path):
    """The blocks of a page one after the other, each page on its own; one process for all."""
    script = tmp_path / "run.py"
    script.write_text(
        "import json, pathlib\n"
        "for page, *blocks in json.loads(pathlib.Path('pages.json').read_text()):\n"
        "    names = {'__name__': page}\n"
        "    for number, block in enumerate(blocks):\n"
        "        exec(compile(block, f'{page}, block {number}', 'exec'), names)\n"
    )
    pages = [
        (name, *BLOCK.findall(page.read_text()))
        for name, page in zip(NAMES, PAGES, strict=True)
        if "```python" in page.read_text()
    ]
    assert len(pages) >= 4
    (tmp_path / "pages.json").write_text(json.dumps(pages))
    done = run(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", NAMES)
def test_commands_are_understood(name, capsys):
    lines = [line.split(" #")[0] for line in CODE.findall((ROOT / name).read_text())]
    for command in (part.strip() for line in lines for part in line.split(";")):
        words = shlex.split(command)[1:]
        if "..." in words or "--help" in words or any(word.isupper() for word in words):
            continue  # a pattern, not a command
        assert words[0] in VERBS, command
        module = importlib.import_module(f"vitscope.cli.{words[0]}")
        rest = module.expand(words[1:]) if hasattr(module, "expand") else words[1:]
        try:
            read_options(module.Options, rest, "vitscope")
        except SystemExit:
            pytest.fail(f"{command}\n{capsys.readouterr().err}")


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    for found in LINK.findall(page.read_text()):
        target, _, anchor = (found[0] or found[1]).partition("#")
        if "://" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert anchor in {_slug(heading) for heading in headings}, f"{name} links to {target}#{anchor}"


def test_every_page_is_in_the_site():
    def leaves(tree: object) -> list[str]:
        if isinstance(tree, str):
            return [tree]
        children = tree.values() if isinstance(tree, dict) else tree
        return [leaf for child in children for leaf in leaves(child)]

    exams = [f"exams/{exam}.md" for names in rooms().values() for exam in names]  # by docs/exam_pages.py
    listed = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]) + exams
    notebooks = (ROOT / "docs").rglob("*.ipynb")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (*PAGES[1:], *notebooks)}
    assert sorted(listed) == sorted(pages)


def test_the_site_builds_without_a_warning(tmp_path):
    # not --quiet, with which --strict counts no warnings
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "contains a link" not in done.stderr, done.stderr[-2000:]  # to what is left out of the site
    assert (tmp_path / "index.html").exists()
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = (tmp_path / "notebooks" / f"{notebook.stem}.html").read_text()
        figures = re.findall(r'<img [^>]*src="([^"]+)"', page)
        assert figures, f"{notebook.name} has no figure on the site"
        assert all((tmp_path / "notebooks" / figure).exists() for figure in figures)


def _slug(heading: str) -> str:
    plain = re.sub(r"[^\w\s-]", "", heading.lower())
    return re.sub(r"[\s]+", "-", plain.strip())
