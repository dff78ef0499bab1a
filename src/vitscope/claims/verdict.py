"""One statement of the papers, what was found on a model, and whether the two agree."""

from dataclasses import dataclass
from typing import Literal

Judgement = Literal["holds", "does not hold", "inconclusive"]
MAJORITY = 2 / 3  # share of the units whose interval must lie on one side of zero


@dataclass(frozen=True)
class Verdict:
    """A claim's judgement on one model, with its evidence in words and numbers."""

    claim: str  # the row of the papers' claims it belongs to
    statement: str
    model: str
    found: str
    judgement: Judgement


def judge_signs(below: int, above: int, total: int, expected: Literal["falls", "rises"]) -> Judgement:
    """Judge by how many units certainly fall or rise; those whose interval holds zero count for neither side."""
    wanted, unwanted = (below, above) if expected == "falls" else (above, below)
    if total and wanted >= MAJORITY * total:
        return "holds"
    if total and unwanted >= MAJORITY * total:
        return "does not hold"
    return "inconclusive"
