"""What a build-up search found: a row per candidate, with paired differences.

All candidates are measured on the same images. With a(i) the number of image i under the model kept so far and b(i)
under the candidate, the difference is mean(b - a) and its 95 % interval +- 1.96 sd(b - a) / sqrt(n): what both models
get right, or both wrong, does not count, so the interval is narrower than those of the two scores.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from vitscope.core import pd
from vitscope.core.errors import BadResult
from vitscope.core.statistics import NORMAL, share_interval
from vitscope.results import atomic_write
from vitscope.results.codec import decode, encode
from vitscope.results.result import check_schema

SCHEMA = 1
NAME = "build_up"


@dataclass(frozen=True)
class Step:
    """One candidate. The first row is the model without any MSA block, to which no difference belongs."""

    step: int
    stage: int | None  # the one that got an MSA block, from 1
    unit: str | None  # the conv unit that it replaces
    msa: tuple[int, ...]  # MSA blocks per stage of this candidate
    score: float
    low: float
    high: float
    difference: float  # to the model kept before
    difference_low: float
    difference_high: float
    kept: bool
    n: int  # images
    parameters: int
    seconds: float


@dataclass(frozen=True)
class BuildUp:
    """The candidates of a build-up search, in the order they were decided on."""

    steps: tuple[Step, ...]
    budget: int
    min_gain: float
    significant: bool
    complete: bool  # the budget is used, or nothing is left to try

    @property
    def best(self) -> Step:
        """The candidate that was kept last."""
        return [step for step in self.steps if step.kept][-1]

    @property
    def msa(self) -> tuple[int, ...]:
        """MSA blocks per stage of the best one, as `alternate` takes them."""
        return self.best.msa

    def table(self) -> pd.DataFrame:
        """A row per candidate."""
        rows = [{**asdict(step), "msa": "-".join(map(str, step.msa))} for step in self.steps]
        table = pd.DataFrame(rows)
        return table.astype({"stage": "Int64"})

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `build_up.csv` and `build_up.json`."""
        atomic_write(Path(folder) / f"{NAME}.csv", self.table().to_csv(index=False))
        content = {"schema": SCHEMA, "result": encode(self)}
        atomic_write(Path(folder) / f"{NAME}.json", json.dumps(content, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> BuildUp:
        """Read what `save` wrote."""
        path = Path(folder) / f"{NAME}.json"
        try:
            content = json.loads(path.read_bytes())
            check_schema(path, content, SCHEMA)
            return decode(cls, content.get("result"))
        except FileNotFoundError:
            raise BadResult(f"no build-up search in {folder}: {path.name} is missing") from None
        except (OSError, ValueError) as error:
            raise BadResult(f"{path} is damaged ({error}); start the search again, it goes on") from error


def score_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and its 95 % interval: Wilson's where all values are 0 or 1, which stays between them."""
    n, mean = len(values), float(values.mean())
    if not np.isin(values, (0.0, 1.0)).all():
        return mean_interval(values)
    low, high = share_interval(values.sum(), n)
    return mean, float(low), float(high)


def mean_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and its 95 % interval (normal); the interval is NaN for fewer than two values."""
    mean = float(values.mean())
    half = NORMAL * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return mean, mean - half, mean + half


def per_image(measured: Sequence[float], like: np.ndarray | None = None) -> np.ndarray:
    """The numbers of a candidate as an array; refuses what cannot be compared."""
    values = np.asarray(measured, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise BadResult(
            f"the measurement gave an array of shape {values.shape} with {int((~np.isfinite(values)).sum())} numbers "
            "that are not finite; expected one number per image, e.g. 1 where the model is right and 0 where not"
        )
    if like is not None and len(values) != len(like):
        raise BadResult(
            f"the measurement gave {len(values)} numbers for this candidate and {len(like)} for the one before; "
            "measure all candidates on the same images"
        )
    return values
