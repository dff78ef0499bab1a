"""Exams of feature maps where an activation follows an addition: the block's output, or the sum, as asked."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from torch import Tensor, nn

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.data import DataConfig, ImageData, batches
from vitscope.engine.cache_key import exam_keys
from vitscope.engine.takes_interface import Request
from vitscope.exams import EXAMS

OF_MAPS = ["fourier", "variance", "effective_rank", "cka", "token_norms", "uncertainty", "covariance"]


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    torch.manual_seed(0)
    return torchvision.models.resnet18(num_classes=10).eval()


@pytest.fixture(scope="module")
def small() -> nn.Module:
    torch.manual_seed(0)
    return vs.create_model("resnet_mini")


@torch.no_grad()
def maps_by_hand(model: nn.Module, images: Tensor, stream: str) -> list[np.ndarray]:
    """After the stem and every block, by code that is written for this model, in float64."""
    model = model.double()
    x = model.maxpool(model.relu(model.bn1(model.conv1(images.double()))))
    found = [x]
    for block in [b for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for b in layer]:
        shortcut = x if block.downsample is None else block.downsample(x)
        total = block.bn2(block.conv2(block.bn1(block.conv1(x)).relu())) + shortcut
        x = total.relu()
        found.append(total if stream == "sum" else x)
    model.float()
    return [x.numpy() for x in found]


@pytest.mark.parametrize("stream", ["read", "sum"])
def test_variance_and_fourier_against_maps_by_hand(
    resnet: nn.Module, fashion: ImageData, stream: str
) -> None:
    ((images, _, _),) = list(
        batches(fashion, resnet, limit=6, batch_size=6, seed=1, config=DataConfig((3, 64, 64)))
    )
    data = (images, torch.zeros(6, dtype=torch.long))
    found = maps_by_hand(resnet, images, stream)
    variance = vs.exams.variance(resnet, data, stream=stream)
    wanted = [x.reshape(*x.shape[:2], -1).var(axis=2, ddof=1).mean() for x in found]
    np.testing.assert_allclose(variance.value, wanted, rtol=1e-4)
    fourier = vs.exams.fourier(resnet, data, stream=stream)
    for i, x in enumerate(found):
        amplitude = np.log(np.abs(np.fft.fft2(x)) + 1e-6).mean((0, 1))
        diagonal = np.diagonal(amplitude)[: x.shape[2] // 2 or 1] - amplitude[0, 0]
        np.testing.assert_allclose(fourier.value[fourier.row_unit == i], diagonal, atol=2e-3)
    side = "after" if stream == "read" else "before"
    assert [unit.taken for unit in variance.units] == ["", *[f"{side} relu"] * 8]


@pytest.mark.parametrize("exam", OF_MAPS)
def test_every_exam_of_maps_knows_both(exam: str, small: nn.Module, fashion: ImageData) -> None:
    read, plain, total = (
        vs.diagnose(small, fashion, [exam], limit=16, batch_size=8, **said)[exam]
        for said in ({"stream": "read"}, {}, {"stream": "sum"})
    )
    assert read.table().equals(plain.table())
    assert not np.allclose(read.table()["value"], total.table()["value"], equal_nan=True)
    assert {unit.taken for unit in read.units} == {"", "after relu"}  # type: ignore[attr-defined]
    assert {unit.taken for unit in total.units} == {"", "before relu"}  # type: ignore[attr-defined]


def test_maps_of_a_transformer_are_the_same_either_way(small_vit: nn.Module, fashion: ImageData) -> None:
    read, total = (vs.exams.variance(small_vit, fashion, limit=8, stream=s) for s in ("read", "sum"))
    np.testing.assert_array_equal(read.value, total.value)
    assert {unit.taken for unit in total.units} == {""}


def test_what_is_found_again_depends_on_it(resnet: nn.Module, fashion: ImageData) -> None:
    read, total = (exam_keys(resnet, fashion, EXAMS.values(), Request(8), stream=s) for s in ("read", "sum"))
    assert {exam for exam in EXAMS if read[exam] != total[exam]} == set(OF_MAPS)


def test_a_run_keeps_which_it_was_and_its_definition(
    small: nn.Module, fashion: ImageData, tmp_path: Path
) -> None:
    vs.diagnose(small, fashion, ["variance"], limit=8, out=tmp_path, stream="sum")
    assert json.loads((tmp_path / "run.json").read_text())["options"]["stream"] == "sum"
    content = json.loads((tmp_path / "exams" / "variance" / "result.json").read_text())
    assert content["version"] == EXAMS["variance"].result.version
    vs.diagnose(small, fashion, ["variance"], limit=8, out=tmp_path)
    vs.report([tmp_path], tmp_path / "page.html")
    assert "after the relu that follows the addition" in (tmp_path / "page.html").read_text()


def test_another_stream_is_refused_before_any_pass(fashion: ImageData) -> None:
    with pytest.raises(VitscopeError, match="stream is 'after'; expected read or sum"):
        vs.diagnose(nn.Identity(), fashion, ["variance"], stream="after")
