"""Verdicts on the papers' statements, as a page and as a table of the documentation."""

import math
from pathlib import Path

import pytest

from tests.report.study_tables import a_study, compared
from vitscope.core.errors import VitscopeError
from vitscope.report.claims_page import FIGURES, read_claims, write_claims
from vitscope.results.claim_record import ClaimRecord
from vitscope.results.study_result import StudyResult

UNKNOWN = dict.fromkeys(("value", "low", "high", "p", "holm_p"), math.nan)


def put(folder: Path, claim: str, study: StudyResult | None = None, **more: object) -> None:
    said = (f"Title of {claim}", f"{claim} is so.", "A number.", "It was 3.", f"hash-of-{claim}")
    scale = ("cpu", "small models", "they are small", f"vitscope reproduce {claim} --scale cpu")
    record = ClaimRecord(claim, *said, *scale, registered="2026-01-02T03:04:05", **more)  # type: ignore[arg-type]
    record.save(folder / claim)
    if study is not None:
        study.save(folder / claim)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Claims of which some are run, some not yet, one in part, and one not at this scale."""
    put(tmp_path, "A2", a_study())
    put(tmp_path, "C10")
    missing = compared("dearer", "inconclusive", seeds=0, note="no result of new", **UNKNOWN)
    put(tmp_path, "C9", a_study(comparisons=[compared("better", "holds"), missing]))
    put(tmp_path, "D1", a_study(comparisons=[compared("dearer", "inconclusive", seeds=0, **UNKNOWN)]))
    put(tmp_path, "F5", possible=False)
    return tmp_path


def test_a_table_of_which_half_is_not_run_yet(folder: Path) -> None:
    text = write_claims(folder, folder / "docs" / "claims.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert rows == [
        "| [A2](#a2) | better is so | +10.00 points [+4.00, +16.00] | 2 | **holds** |",
        "| [C9](#c9) | better is so | +10.00 points [+4.00, +16.00] | 2 | **holds** |",
        "| [C9](#c9) | dearer is so | not measured | 0 | no result of new |",
        "| [C10](#c10) | Title of C10 | | | not run yet |",
        "| [D1](#d1) | Title of D1 | | | not run yet |",
        "| [F5](#f5) | Title of F5 | | | not at this scale |",
    ]
    assert "1 holds, 1 holds in part, 2 not run yet, 1 not at this scale" in text
    assert "What differs from the papers at this scale: they are small." in text
    for claim in ("A2", "C9", "C10", "D1", "F5"):
        assert f"\n### {claim}\n\n**Title of {claim}.** {claim} is so." in text
        assert f"card `hash-of-{claim}`, registered 2026-01-02" in text
        drawn = claim in ("A2", "C9")
        assert (folder / "docs" / FIGURES / f"{claim}.png").exists() == drawn
        assert (f"({FIGURES}/{claim}.png)" in text) == drawn


def test_a_scale_that_decides_nothing_gives_numbers_and_no_verdict(tmp_path: Path) -> None:
    put(tmp_path, "A2", a_study(), verdicts=False)
    text = write_claims(tmp_path, tmp_path / "claims.md").read_text()
    assert "| [A2](#a2) | better is so | +10.00 points [+4.00, +16.00] | 2 | no verdict |" in text
    assert "1 no verdict;" in text
    assert not (tmp_path / "figures").exists()


def test_the_page_has_every_claim(folder: Path) -> None:
    page = write_claims(folder, folder / "claims.html").read_text()
    for record in read_claims(folder):
        assert f'id="{record.claim}"' in page
        assert f'<span class="judgement {record.outcome.replace(" ", "-")}">{record.outcome}</span>' in page
    assert "<b>2</b>not run yet" in page


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VitscopeError, match="no claims in"):
        write_claims(tmp_path, tmp_path / "claims.md")
    with pytest.raises(VitscopeError, match=r"ends in \.html or \.md"):
        write_claims(tmp_path, tmp_path / "claims.pdf")
