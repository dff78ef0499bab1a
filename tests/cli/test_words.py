"""Unknown, missing and surplus words of a command: one line on stderr, with what to type."""

import importlib

import pytest

from vitscope.cli.app import VERBS, main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "diagnose vit_mini --limitt 3",
            "no option --limitt; did you mean --limit? (see: vitscope diagnose --help)",
        ),
        ("diagnose vit_mini --exams", "--exams needs a value; expected several of: text"),
        ("train vit_mini --monitor --epochs 1", "--monitor needs a value; expected several of: text"),
        (
            "train vit_mini --no-forec",
            "no option --no-forec; did you mean --no-force? (see: vitscope train --help)",
        ),
        (
            "evaluate x --mean -0.5 .5 --std .2 --zz",
            "no option --zz; expected one of its options (see: vitscope eval",
        ),
        ("models -z", "no option -z; expected one of its options (see: vitscope models --help)"),
        ("train", "MODEL is missing; expected: vitscope train MODEL (see: vitscope train --help)"),
        ("train --epochs 3", "MODEL is missing"),
        (
            "compare a",
            "SECOND is missing; expected: vitscope compare FIRST SECOND (see: vitscope compare --help)",
        ),
        (
            "anatomy a b",
            "'b' is one word too many; expected: vitscope anatomy MODEL (see: vitscope anatomy --help)",
        ),
        (
            "diagnose a --limit",
            "--limit needs a value; expected a whole number, 1 or more (see: vitscope diagnose",
        ),
        ("diagnose a --limit --seed 1", "--limit needs a value"),
        ("report a -o", "-o needs a value; expected a path (see: vitscope report --help)"),
    ],
)
def test_words_that_do_not_fit(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"vitscope: {message}")
    assert len(shown.err.splitlines()) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_shows_anybody_elses_words(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--nosuchoption"]) == 2
    assert capsys.readouterr().err.startswith("vitscope: no option --nosuchoption;")


def test_words_that_fit(tmp_path) -> None:
    from vitscope.cli.options import read_options

    def read(verb: str, words: str):
        return read_options(
            importlib.import_module(f"vitscope.cli.{verb}").Options, words.split(), f"vitscope {verb}"
        )

    found = read(
        "evaluate", "a b --mean -0.5 -1 --batch_size 3 --no-cache --limit=4 --output -1 --trust-code"
    )
    assert (found.models, found.mean, found.batch_size, found.cache) == (("a", "b"), (-0.5, -1.0), 3, False)
    assert (found.limit, found.output, found.trust_code) == (4, -1, True)
    (tmp_path / "o.yaml").write_text("model: vit_mini\n")
    assert read("train", f"--config {tmp_path / 'o.yaml'} --epochs 2").model == "vit_mini"
    assert read("report", "a b -o x.html").runs[-1].name == "b"


@pytest.mark.parametrize(
    "words", ["anatomy --help", "anatomy vit_mini --help", "train vit_mini --epochs 1 -h"]
)
def test_help_names_the_model_and_what_it_may_be(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words.split())
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].endswith("MODEL") or " MODEL [" in shown.splitlines()[0]
    assert "package.module:factory" in "".join(shown.split())
