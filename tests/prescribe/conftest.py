"""Run folders of two small models, which tests copy and in which they change what was measured."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import vitscope as vs
from tests.made_once import made_once
from vitscope.core.statistics import Estimate
from vitscope.engine.facts import model_facts
from vitscope.findings.hessian import HessianResult
from vitscope.models import name_of
from vitscope.results import Result, Run

EXAMS = {
    "resnet_mini": ["prediction", "fourier", "variance", "lesion"],
    "vit_mini": ["prediction", "fourier", "variance", "attention"],
}
Change = Callable[..., Path]


@pytest.fixture(scope="session")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "diagnosed", examine_them)


def examine_them(folder: Path) -> None:
    data = vs.load_data("fashion", split="test")
    for name, exams in EXAMS.items():
        model = vs.create_model(name, pretrained=True)
        kept(folder / name, model, vs.diagnose(model, data, exams, limit=20, name=name))


def kept(folder: Path, model: nn.Module, results: dict[str, Result]) -> None:
    """A run as `diagnose` leaves it, without the figures, which take longer than the exams."""
    options = {"data": "fashion (test)", "exams": list(results), "limit": 20, "seed": 0}
    with Run.start(folder, options, seed=0, model=model_facts(model, name_of(model))) as run:
        for result in results.values():
            run.save_result(result)


@pytest.fixture
def changed(diagnosed: Path, tmp_path: Path) -> Change:
    """changed("vit_mini", attention={"value": ...}): a copy of the run in which results have these fields."""

    def change(model: str, **by_exam: dict[str, Any]) -> Path:
        run = tmp_path / model
        shutil.copytree(diagnosed / model, run)
        for exam, fields in by_exam.items():
            result = Result.load(run / "exams" / exam)
            dataclasses.replace(result, **fields).save(run / "exams" / exam)
        return run

    return change


def with_negative(run: Path, negative: int, positive: int) -> Path:
    """Put a Hessian spectrum with so many negative eigenvalues into a run, the same share in each of many batches."""
    values = np.tile(np.repeat([-1.0, 2.0], [negative, positive]), (40, 1))
    share = negative / (negative + positive)
    batch = np.ones(40)
    HessianResult(
        model="known",
        data="known",
        n=640,
        seed=0,
        eigenvalues=values,
        residuals=np.zeros_like(values),
        converged=np.ones_like(values, dtype=bool),
        products=batch.astype(np.int64),
        nll=batch,
        l2=batch,
        batch_size=16,
        weight_decay=0.05,
        convention="half_square",
        decay_all=True,
        params="all",
        parameters=1,
        augmentation="none",
        mode="lanczos",
        tol=1e-3,
        negative_share=Estimate(share, share, share),
        positive_mean=Estimate(2.0, 2.0, 2.0),
    ).save(run / "exams" / "hessian")
    return run
