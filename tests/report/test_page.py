import base64
import gzip
import hashlib
import html
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import vitscope as vs
from tests.report.older import COMMAND, age
from vitscope.claims import verdict_table
from vitscope.findings.fourier import FourierResult
from vitscope.report.page import render_page
from vitscope.report.subject import find_runs
from vitscope.report.verdicts import all_verdicts
from vitscope.results import Result

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
    inside = [link[1:] for link in structure.links if link.startswith("#")]
    assert set(inside) <= set(structure.ids)


def test_only_scripts_that_the_policy_names_may_run(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in html.unescape(policy[1]).split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert rules["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert page.count("<script") == len(scripts) + page.count('<script type="text/plain"')


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


def test_holds_every_table(runs: Path, page: str) -> None:
    held = [gzip.decompress(base64.b64decode(text)) for text in re.findall(r'class="payload">([^<]*)<', page)]
    for path in sorted(runs.glob("*/exams/*/*.csv")):
        if len(path.read_text().splitlines()) > 1:
            assert path.read_bytes() in held


def test_vital_signs_come_first(page: str, structure: Structure) -> None:
    assert (
        page.index('id="models"')
        < page.index('id="signs"')
        < page.index('id="pairs"')
        < page.index('id="prediction"')
    )
    assert "MSAs lower high frequencies" in "".join(structure.text)


def test_reads_the_numbers_of_each_model(structure: Structure) -> None:
    text = " ".join("".join(structure.text).split())
    assert "resnet_mini. On average high frequencies change by " in text
    assert "vit_mini. On average high frequencies change by " in text


def test_every_verdict_stands_beside_its_number_and_its_rule(
    runs: Path, page: str, structure: Structure
) -> None:
    text = " ".join("".join(structure.text).split())
    verdicts = all_verdicts(find_runs([runs]))
    assert {v.claim for v in verdicts} >= {"D1", "D3", "E1"}
    for verdict in verdicts:
        assert f"{verdict.judgement} {verdict.found}" in text
        assert f"{verdict.claim}{verdict.decided_by}" in text
    assert f"{len(verdicts)} verdicts, each at 95 %" in text
    assert "two thirds" not in text
    (held,) = [
        table
        for packed in re.findall(r'class="payload">([^<]*)<', page)
        if (table := gzip.decompress(base64.b64decode(packed))).startswith(b"claim,")
    ]
    assert sorted(held.decode().splitlines()) == sorted(
        verdict_table(verdicts).to_csv(index=False).splitlines()
    )


def test_says_what_was_not_examined(structure: Structure) -> None:
    text = "".join(structure.text)
    assert "Not examined this way: vit_mini." in text
    assert "Nothing to examine this way in resnet_mini." in text


HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="alert(3)'


def test_names_are_escaped(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    path = tmp_path / "copy" / "run.json"
    record = json.loads(path.read_text())
    record["model"]["name"] = record["command"] = HOSTILE
    record["model"]["units"][1] |= {"name": HOSTILE, "kind": HOSTILE}
    record["model"]["surgery"] = [{"operation": HOSTILE, "options": {HOSTILE: HOSTILE}}]
    path.write_text(json.dumps(record))
    for exam in (tmp_path / "copy" / "exams").iterdir():
        result = Result.load(exam)
        renamed = {"model": HOSTILE, "data": HOSTILE}
        if isinstance(result, FourierResult):
            renamed["units"] = tuple(replace(unit, name=f"{unit.name} {HOSTILE}") for unit in result.units)
        replace(result, **renamed).save(exam)
    page = render_page(find_runs([tmp_path / "copy"]), title=HOSTILE, docs='https://docs.invalid/"x/')
    parser = Tags()
    parser.feed(page)
    assert parser.counts["img"] == 0
    assert parser.scripts == parser.counts["script"] - page.count('<script type="text/plain"') == 1
    assert not [name for name in parser.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)" in page
    assert '<a href="https://docs.invalid/&#34;x/exams/fourier">' in page


class Tags(HTMLParser):
    """Counts tags and collects the names of all attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.scripts += tag == "script" and not attrs


@pytest.fixture
def light(runs: Path, tmp_path: Path) -> Path:
    """A run with a single figure."""
    shutil.copytree(runs / "vit", tmp_path / "light")
    for exam in (tmp_path / "light" / "exams").iterdir():
        if exam.name != "maps":
            shutil.rmtree(exam)
    return tmp_path / "light"


def test_an_interrupted_run_is_marked(light: Path) -> None:
    path = light / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "interrupted"}))
    assert "This run is interrupted" in render_page(find_runs([light]))


def test_report_is_callable_and_writes_one_file(light: Path, tmp_path: Path) -> None:
    out = vs.report([light], tmp_path / "sub" / "page.html", title="Mine")
    assert out == tmp_path / "sub" / "page.html"
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["page.html"]
    assert "<title>Mine · vitscope</title>" in out.read_text()


def test_outdated_exams_are_named_with_their_command(runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "vit", tmp_path / "run"))
    age(run, "maps", "layers")
    for exam in ("prediction", "attention"):
        shutil.rmtree(run / "exams" / exam)
    with pytest.warns(UserWarning, match=rf"left out, .*: maps of {run}; compute it anew: vitscope") as told:
        text = vs.report([run], tmp_path / "page.html").read_text()
    assert len(told) == 1
    assert "run: Attention maps." in text or "vit_mini: Attention maps." in text
    assert f"<code>{html.escape(COMMAND)}</code>" in text
    assert '<section id="maps">' not in text
    both = render_page(find_runs([run, runs / "vit"]))
    assert '<a href="#outdated">Outdated</a> and left out: vit_mini (run).' in both


def test_names_between_backticks_are_set_as_code(page: str) -> None:
    assert "see <code>highest</code> in the table" in page


def test_the_script_for_surfaces_is_there_only_if_there_is_one(light: Path) -> None:
    assert 'id="plotly"' not in render_page(find_runs([light]))


def test_does_not_grow_large(page: str) -> None:
    assert len(page.encode()) < 600_000


def test_a_figure_of_nothing_is_one_line(tmp_path: Path) -> None:
    """Small models have no outliers: no empty sheet, and no file."""
    data = vs.load_data("fashion", split="test")
    vs.diagnose(vs.create_model("vit_mini"), data, ["token_norms"], limit=4, out=tmp_path / "run")
    assert sorted(file.name for file in (tmp_path / "run/figures").glob("*.png")) == [
        "attention_sinks.png",
        "token_norms.png",
    ]
    page = render_page(find_runs([tmp_path / "run"]))
    section = page[page.index('<section id="token_norms">') :]
    figures = re.findall(r"<figure>.*?</figure>", section[: section.index("</section>")], re.DOTALL)
    assert [figure.count("<svg") for figure in figures] == [1, 1, 0]
    assert '<p class="note">No token is an outlier in any of 4 images.</p>' in figures[2]
