from pathlib import Path

import pytest
import torch

from vitscope.data import load_data
from vitscope.exams import diagnose
from vitscope.models import create_model


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of two models, one of them without the variance exam."""
    folder = tmp_path_factory.mktemp("runs")
    data = load_data("fashion", split="test")
    torch.manual_seed(0)
    diagnose(create_model("resnet_mini"), data, limit=30, out=folder / "resnet")
    diagnose(create_model("vit_mini"), data, ["prediction", "fourier"], limit=30, out=folder / "vit")
    return folder
