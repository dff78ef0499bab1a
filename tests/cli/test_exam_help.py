import pytest

from vitscope.cli.app import main
from vitscope.cli.exam_help import meaning_of, option_lines
from vitscope.cli.words import epilogue
from vitscope.exams import EXAMS


def test_an_option_has_type_default_and_meaning() -> None:
    lines = epilogue(["--exams", "hessian", "--help"]).splitlines()
    assert "  --hessian.k: a whole number, 1 or more (default: 5). Eigenvalues per batch." in lines


@pytest.mark.parametrize(
    ("option", "start"),
    [
        ("temporal.block", "a whole number, 0 or more, or None (default: None)"),
        ("uncertainty.passes", "a whole number, 2 or more (default: 8)"),
        ("covariance.draws", "a whole number, 16 or more (default: 512)"),
        ("hessian.recipe", "text, or None (default: auto)"),
    ],
)
def test_what_may_be_typed_is_what_is_taken(option: str, start: str) -> None:
    (line,) = [
        one for one in option_lines(EXAMS[option.partition(".")[0]]) if one.startswith(f"  --{option}: ")
    ]
    assert line.startswith(f"  --{option}: {start}. ")


def test_fit_is_explained() -> None:
    (line,) = option_lines(EXAMS["prediction"])
    assert "fit: leave them as they are, and add what dividing them by the best number does" in line


def test_exams_without_options_say_so() -> None:
    assert (
        epilogue(["--exams", "variance", "attention", "--help"])
        == "exams without options: variance, attention"
    )


@pytest.mark.parametrize("exam", EXAMS)
def test_every_exam_can_tell(exam: str) -> None:
    lines = list(option_lines(EXAMS[exam]))
    assert all("\n" not in line and "<" not in line for line in lines)
    assert [line for line in lines if not line.partition(": ")[2].partition(". ")[2]] == []  # a meaning


def test_the_first_sentence_may_take_several_lines() -> None:
    told = "Do.\n\nArgs:\n    a: One\n        and two. Three.\n    b: Four."
    assert (meaning_of(told, "a"), meaning_of(told, "b"), meaning_of(told, "c")) == (
        "One and two.",
        "Four.",
        "",
    )


@pytest.mark.parametrize(("verb", "said"), [("compare", "RUN|MODEL RUN|MODEL"), ("anatomy", "MODEL")])
def test_positional_arguments_are_called_what_they_are(
    verb: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    told = capsys.readouterr().out
    assert said in told.splitlines()[0]
    assert "TEXT" not in told.splitlines()[0]
