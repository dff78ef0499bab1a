import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import vitscope as vs
from vitscope.report.page import render_page
from vitscope.report.subject import find_runs
from vitscope.results import Run

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Structure(HTMLParser):
    """Checks that tags are closed in order, and collects what a test asks about."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("href", "src", "xlink:href") and value:
                self.links.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def page(runs: Path) -> str:
    return render_page(find_runs([runs]))


@pytest.fixture(scope="module")
def structure(page: str) -> Structure:
    parser = Structure()
    parser.feed(page)
    parser.close()
    return parser


def test_is_well_formed(structure: Structure) -> None:
    assert structure.open == []
    assert len(structure.ids) == len(set(structure.ids))


def test_is_self_contained(structure: Structure, page: str) -> None:
    assert all(link.startswith(("#", "data:")) for link in structure.links)
    assert "@import" not in page
    assert "url(http" not in page
    assert "<script" not in page
    inside = [link[1:] for link in structure.links if link.startswith("#")]
    assert set(inside) <= set(structure.ids)


def test_shows_both_models_on_common_axes(page: str) -> None:
    fourier = page[page.index('<section id="fourier">') : page.index('<section id="variance">')]
    panels = re.findall(r"<svg.*?</svg>", fourier, flags=re.DOTALL)
    assert len(panels) == 8  # four figures of two models
    labels = [re.findall(r"<text[^>]*>([^<]*)</text>", panel) for panel in panels[:2]]
    numbers = [[t for t in texts if re.fullmatch(r"[−\d.]+", t)] for texts in labels]
    assert numbers[0] == numbers[1]


def test_says_what_an_exam_shows_and_when_it_misleads(structure: Structure) -> None:
    text = " ".join("".join(structure.text).split())
    for exam in ("prediction", "fourier", "variance"):
        about = vs.exams.EXAMS[exam].result.about
        assert about.title in text
        assert " ".join(about.shows.split()) in text
        assert " ".join(about.misleads.split()) in text


def test_holds_every_number(runs: Path, page: str) -> None:
    table = Run.open(runs / "vit").results()["fourier"].table()
    assert page.count(f"<td>{table['value'].iloc[5]:.4g}</td>") >= 1
    rows = int((table["unit"] == "blocks.0.attn").sum())
    assert rows > 5  # the frequencies of the diagonal and of the rings, and the change
    assert page.count('<td class="word">blocks.0.attn</td>') == rows


def test_says_what_was_not_examined(structure: Structure) -> None:
    assert "Not examined this way: vit_mini." in "".join(structure.text)


def test_names_are_escaped(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    path = tmp_path / "copy" / "run.json"
    record = json.loads(path.read_text())
    record["model"]["name"] = "<script>alert(1)</script>"
    record["command"] = '"><img src=x onerror=alert(2)>'
    path.write_text(json.dumps(record))
    page = render_page(find_runs([tmp_path / "copy"]))
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_an_interrupted_run_is_marked(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    path = tmp_path / "copy" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "interrupted"}))
    assert "This run is interrupted" in render_page(find_runs([tmp_path / "copy"]))


def test_report_is_callable_and_writes_one_file(runs: Path, tmp_path: Path) -> None:
    out = vs.report([runs / "vit", runs / "resnet"], tmp_path / "sub" / "page.html", title="Mine")
    assert out == tmp_path / "sub" / "page.html"
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["page.html"]
    assert "<title>Mine · vitscope</title>" in out.read_text()
    assert vs.report(runs / "vit", tmp_path / "one.html").exists()


def test_does_not_grow_large(page: str) -> None:
    assert len(page.encode()) < 600_000
