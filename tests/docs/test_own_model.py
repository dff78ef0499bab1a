"""The commands of docs/your-own-model.md as they stand, in a folder that has what they speak of."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vitscope as vs
from vitscope.cli.app import main

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-model.md").read_text()
COMMANDS = dict.fromkeys(re.findall(r"`(vitscope [^`]+)`", PAGE))
HERE = [command for command in COMMANDS if "package.module" in command or "runs/mine" in command]
MODULE = """
from torch import nn


def factory():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2),
    )
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "module.py").write_text(MODULE)
    draw = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(3):
            pixels = draw.integers(0, 256, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{i}.png")
    vs.save_model(vs.create_model("resnet_mini", num_classes=2), folder / "runs" / "mine")
    return folder


def test_the_page_has_such_commands() -> None:
    assert any(command.startswith("vitscope diagnose package.module:factory --data") for command in HERE)
    assert any(command.startswith("vitscope anatomy package.module:factory") for command in HERE)


@pytest.mark.parametrize("command", HERE)
def test_a_command_of_the_page(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    words = shlex.split(command.replace(" ...", " --data folder:photos"))[1:]
    assert main(words) == 0, capsys.readouterr().err
