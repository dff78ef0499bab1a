"""Lists of exams in the documentation, made from the rooms that the exams' files lie in.

`python -m tests.exam_lists` writes the rows of the README's table; the site's menu is made when the site is built.
"""

from pathlib import Path

from vitscope.findings import result_types

ROOT = Path(__file__).parents[1]
EXAMS = ROOT / "src/vitscope/exams"
README = ROOT / "README.md"
MARK = "| exams: "
SEE = {"robustness": "evaluation.md", "prediction": "evaluation.md", "streams": "streams.md"}


def rooms() -> dict[str, list[str]]:
    """Exams that have a page, by room, both in the order in which a report shows them."""
    where = {path.stem: path.parent.name for path in EXAMS.glob("*/[a-z]*.py")}
    found: dict[str, list[str]] = {}
    for exam in result_types():
        if (ROOT / "docs/exams" / f"{exam}.md").exists():
            found.setdefault(where[exam], []).append(exam)
    return found


def rows() -> list[str]:
    """Of the README's table."""
    return [
        f"{MARK}{f'[{room}](docs/{SEE[room]})' if room in SEE else room} | "
        + ", ".join(f"[{exam}](docs/exams/{exam}.md)" for exam in exams)
        + " |"
        for room, exams in rooms().items()
    ]


def with_rows(text: str) -> str:
    """The README with its rows of exams made anew."""
    lines = text.split("\n")
    place = next(number for number, line in enumerate(lines) if line.startswith(MARK))
    rest = [line for line in lines if not line.startswith(MARK)]
    return "\n".join([*rest[:place], *rows(), *rest[place:]])


if __name__ == "__main__":
    README.write_text(with_rows(README.read_text()))
