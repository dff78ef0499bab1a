"""Wrong words to every verb, generated from the types of its options: refused in words, with nothing touched."""

import dataclasses
import importlib
import os
from pathlib import Path
from typing import Any, get_args, get_origin

import matplotlib.font_manager  # noqa: F401 - keeps a list of fonts below HOME when it is first imported
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.profiles import few, many
from tests.fuzz.refusals import check_message, files_below
from tests.fuzz.wrong_values import wrong_words
from vitscope.cli.app import VERBS, main
from vitscope.cli.options import hints_of_options
from vitscope.core.arguments.kinds import alternatives, base_of

# What makes a verb's words right but for the one that is wrong; nothing of it is ever computed.
RIGHT = {
    "anatomy": ["vit_mini"],
    "compare": ["vit_mini", "resnet_mini", "--limit", "4"],
    "diagnose": ["vit_mini", "--limit", "4"],
    "evaluate": ["vit_mini", "--limit", "4"],
    "operate": ["vit_mini", "--smooth"],
    "prescribe": ["run"],
    "report": ["run"],
    "reproduce": ["D6", "--scale", "smoke", "--list"],
    "serve": ["."],
    "study": ["study.yaml", "--dry-run"],
    "survey": ["vit_mini", "--limit", "4"],
    "train": ["vit_mini", "--fraction", "0.01", "--epochs", "1"],
}
# Names: any text is of their type, and these are known to nobody.
NAMES = {
    "model": [
        "nobody",
        "vit_minni",
        "a/b/c",
        "tv:",
        "hf:",
        ":",
        "os:",
        "os:getcwd",
        "no.such:thing",
        "x" * 300,
        "a\0",
    ],
    "data": ["nothing", "folder:", "folder:/no/where", "timm:", "timm:x", "frames:", "a\0b", "x" * 300],
    "split": ["tset", "..", "a\0b", ""],
    "exams": ["furier", "", "a\0b", "x" * 300],
    "recipe": ["mni", "no.yaml", "", "a\0.yaml"],
    "teacher": ["nobody", ""],
    "labels": ["imagenett", "real:/no/where", ""],
    "classes": ["no.txt", "", "a\0b"],
    "monitor": ["furier", "corruption"],
    "operations": [
        "smoth",
        "",
        "smooth where=nowhere",
        "localize kernel=0",
        "smooth 1 2 3 4 5",
        "alternate =",
    ],
    "device": ["gpu", "cuda:99", "meta", "cpu:7", "", "a\0b"],
    "host": ["", "no.such.host.at.all.", "256.1.1.1", "a\0b"],
    "only": ["furier"],
    "output": ["a\0b"],
    "title": ["a\0b"],
    "docs": ["a\0b"],
    "budget": ["", "6", "soon", "0h", "-1h", "6 weeks", "a\0b"],
    "token": ["a\0b", ""],
    "claims": ["Z9", "", "a\0b", "x" * 300],
}
NAMES |= {"models": NAMES["model"], "first": NAMES["model"], "second": NAMES["model"]}


@st.composite
def wrong_invocations(draw: st.DrawFn) -> list[str]:
    """A verb with one option that cannot be right."""
    verb = draw(st.sampled_from(sorted(RIGHT)))
    options = importlib.import_module(f"vitscope.cli.{verb}").Options
    hints = hints_of_options(options)
    fields = {
        f.name: words
        for f in dataclasses.fields(options)
        if (words := _wrong(f.name, hints[f.name])) is not None
    }
    name = draw(st.sampled_from(sorted(fields)))
    word = draw(fields[name])
    positional = "Positional" in repr(hints[name])
    right = RIGHT[verb]
    if positional:
        return [verb, *([word] if not word.startswith("-") else ["nobody"]), *right[1:]]
    flag = f"--{name.replace('_', '-')}"
    return [verb, *right, f"{flag}={word}"]


def _wrong(name: str, hint: Any) -> st.SearchStrategy[str] | None:
    if name in NAMES:
        return st.sampled_from(NAMES[name])
    several = [one for one in alternatives(hint) if get_origin(base_of(one)) is tuple]
    hint = get_args(base_of(several[0]))[0] if several else hint
    if bool in {base_of(one) for one in alternatives(hint)}:
        return None
    words = wrong_words(hint)
    return None if words.is_empty else words


def _refused(arguments: list[str], capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    before = files_below(folder)
    try:
        code: Any = main(arguments)
    except SystemExit as stop:
        code = stop.code
    shown = capfd.readouterr()
    assert code == 2, f"{arguments} was accepted ({code}):\n{shown.out}\n{shown.err}"
    check_message(shown.err, arguments)
    assert files_below(folder) == before, f"{arguments} touched files"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "study.yaml").write_text("{name: a, arms: {a: {model: vit_mini}}, exams: {prediction: }}")
    return tmp_path


@few(150)
@given(arguments=wrong_invocations())
def test_wrong_words_are_refused(
    arguments: list[str], place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _refused(arguments, capfd, place)


@pytest.mark.slow
@many(4000)
@given(arguments=wrong_invocations())
def test_many_wrong_words_are_refused(
    arguments: list[str], place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _refused(arguments, capfd, place)


def test_every_verb_that_takes_options_is_tried() -> None:
    assert set(VERBS) - set(RIGHT) == {"demo", "models", "data"}
    assert os.environ.get("RANK") is None
