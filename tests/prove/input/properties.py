"""A property and what it is tried on: hypothesis draws the cases, from a seed; a finding does not end the others."""

import inspect
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.prove.record import Finding, Kind, Trial

_KIND = re.compile(r"[^A-Za-z ]+")  # findings that differ in numbers and names are one


def prop(
    name: str, what: str, cases: int, strategy: st.SearchStrategy[Any], check: Callable[..., None]
) -> Kind:
    """A kind of cases: `check(case)`, or `check(case, folder)` with an empty folder, raises a `Finding`."""
    needs_folder = len(inspect.signature(check).parameters) > 1

    def run(trial: Trial) -> tuple[int, list[Finding]]:
        tried, found = 0, {}

        def one(case: Any) -> None:
            nonlocal tried
            tried += 1
            try:
                if needs_folder:
                    with tempfile.TemporaryDirectory(prefix="input-") as folder:
                        check(case, Path(folder))
                else:
                    check(case)
            except Finding as finding:  # the others are tried all the same
                found.setdefault(_KIND.sub("", str(finding))[:60], finding)
            trial.tell(tried)

        chosen = settings(
            max_examples=trial.cases,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        seed(trial.seed)(chosen(given(strategy)(one)))()
        return tried, list(found.values())

    return Kind(name, what, cases, run)
