"""`vitscope models`: what it prints."""

import copy
from typing import Any

import pytest
import timm
from timm.models import _registry
from torch import Tensor, nn

from vitscope.cli.app import main
from vitscope.models import OURS

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def lines(capsys: Capture, *arguments: str) -> list[str]:
    assert main(["models", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_without_a_pattern_ours_and_what_else_there_is(capsys: Capture) -> None:
    shown = lines(capsys)
    assert tuple(shown[: len(OURS)]) == OURS
    assert "--sizes" in shown[len(OURS)]
    assert shown[len(OURS) + 1].split()[2:4] == ["of", "timm,"]


def test_sizes(capsys: Capture) -> None:
    shown = [line.split() for pattern in ("vit_mini", "pvt_small") for line in lines(capsys, pattern)]
    assert shown[0] == ["name", "parameters", "FLOPs", "input", "source"]
    assert ["vit_mini", "0.68", "M", "0.10", "G", "3x32x32", "vitscope"] in shown
    assert ["pvt_small", "24.49", "M", "7.63", "G", "3x224x224", "vitscope"] in shown


def test_only_the_table_goes_to_the_output(capsys: Capture) -> None:
    assert main(["models", "vit_mini"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


class ReadsValues(nn.Module):
    """Cannot find its way through a pass without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 10)
        self.pretrained_cfg = {"input_size": (3, 8, 8)}

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(images.mean((2, 3)))
        return scores if float(self.head.bias.sum()) < 100 else -scores


def reads_values(pretrained: bool = False, **arguments: Any) -> nn.Module:
    return ReadsValues()


def test_flops_of_a_pass_that_needs_weights(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for held in ("_model_entrypoints", "_model_to_module", "_module_to_models"):  # as before afterwards
        monkeypatch.setattr(_registry, held, copy.deepcopy(getattr(_registry, held)))
    timm.models.register_model(reads_values)
    assert lines(capsys, "reads_values")[1].split()[3] == "-"


def test_pattern(capsys: Capture) -> None:
    names = [line.split()[0] for line in lines(capsys, "tv:resnet1*")[1:]]
    assert names == ["tv:resnet101", "tv:resnet152", "tv:resnet18"]


def test_many_names_come_without_sizes(capsys: Capture) -> None:
    shown = lines(capsys, "resnet*")
    assert "resnet50" in shown
    assert shown[-1].startswith(f"{len(shown) - 1} models; narrow the pattern")


def test_a_word_without_wildcards_is_looked_for_inside_names(capsys: Capture) -> None:
    assert [line.split()[0] for line in lines(capsys, "evit_128s")[1:]] == ["levit_128s"]


def test_nothing_matches(capsys: Capture) -> None:
    assert main(["models", "zzz*"]) == 2
    assert "no model matches 'zzz*'" in capsys.readouterr().err
