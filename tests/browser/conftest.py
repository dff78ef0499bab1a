from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.browser.chromium import Chromium, find_chromium
from tests.made_once import made_once
from vitscope.data import load_data
from vitscope.exams import diagnose, landscape
from vitscope.models import create_model
from vitscope.report import report
from vitscope.results import Run

NAMES = {"resnet_mini": "resnet_mini", "vit_mini": "a <b>ViT</b> & more"}


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about two models with everything on it that answers to a reader."""
    if find_chromium() is None:
        pytest.skip(
            "no Chromium on this machine: the page was not looked at (Debian: apt-get install chromium)"
        )
    return made_once(tmp_path_factory, "browser", make_page) / "report.html"


def make_page(folder: Path) -> None:
    images = load_data("fashion", split="test")
    torch.manual_seed(0)
    for model_name, shown in NAMES.items():
        model = create_model(model_name, pretrained=True)
        run = folder / model_name
        diagnose(model, images, ["prediction", "fourier", "cka", "maps"], limit=20, out=run, name=shown)
        if model_name == "resnet_mini":
            found = landscape(
                model, load_data("fashion", split="train"), points=3, limit=16, batch_size=16, name=shown
            )
            Run.open(run).save_result(found)
    report([folder / name for name in NAMES], folder / "report.html", title="Two <models>")


@pytest.fixture(scope="session")
def chromium(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Chromium, page: Path) -> Chromium:
    """The page, freshly loaded in a window of a desk's size."""
    chromium.look(1280)
    chromium.open(page)
    return chromium
