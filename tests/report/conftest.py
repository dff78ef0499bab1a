from pathlib import Path

import pytest
import torch

from tests.made_once import made_once
from vitscope.data import load_data
from vitscope.exams import diagnose
from vitscope.models import create_model


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of two models; one of them lacks variance and CKA, the other has no attention."""
    return made_once(tmp_path_factory, "runs", examine_two)


def examine_two(folder: Path) -> None:
    data = load_data("fashion", split="test")
    torch.manual_seed(0)
    first, second = create_model("resnet_mini"), create_model("vit_mini")
    diagnose(
        first,
        data,
        ["prediction", "fourier", "variance", "cka", "attention"],
        limit=30,
        out=folder / "resnet",
    )
    diagnose(second, data, ["prediction", "fourier", "attention", "maps"], limit=30, out=folder / "vit")
