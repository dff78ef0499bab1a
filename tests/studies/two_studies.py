"""Two studies with an arm each, in one pool of two workers: `python -m tests.studies.two_studies FOLDER`."""

import sys
from pathlib import Path

from tests.studies.tiny_study import LOOKS, arms, tiny_study
from vitscope.studies.engines import Engine
from vitscope.studies.pool import Pooled, do_studies
from vitscope.studies.run import StudyRequest
from vitscope.studies.study import Study

NAMES = ("plain", "broadcast")


def one_arm(name: str, seeds: int = 1) -> Study:
    arm = next(arm for arm in arms() if arm.name == name)
    looks = LOOKS[:2]
    return tiny_study(arms=(arm,), looks=looks, comparisons=()).with_seeds(seeds)


def main(folder: Path, engine: Engine, workers: int | None = None) -> None:
    """Leaves FOLDER/store and a folder per study."""
    pooled = [Pooled(name, lambda n, name=name: one_arm(name, n), folder / name) for name in NAMES]
    do_studies(pooled, 1, StudyRequest("", folder / "store", engine, workers, progress=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]), "local", 2)
