from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exams.attention_by_hand import swin, vit
from tests.exams.factories import tiny
from vitscope.engine.diagnose import diagnose
from vitscope.exams.attention.cb_scale import cb_scale, scale_statistics
from vitscope.findings.cb_scale import CbScaleResult
from vitscope.results import Result
from vitscope.surgery import broadcast_context
from vitscope.surgery.broadcast_context import ContextBroadcast


def operated(model: torch.nn.Module, layers: str = "all") -> torch.nn.Module:
    broadcast_context(model, kind="cb_s", layers=layers)
    generator = torch.Generator().manual_seed(0)
    scales = [m.scale for m in model.modules() if isinstance(m, ContextBroadcast)]
    for depth, scale in enumerate(scales, 1):
        assert scale is not None
        scale.data = depth * torch.randn(scale.shape, generator=generator)
    return model


def test_mean_and_ratio_by_sorting() -> None:
    scale = np.array([-0.9, 0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8, 0.0, 1.0])
    mean, ratio = scale_statistics(scale)
    assert mean == pytest.approx(0.5)
    assert ratio == pytest.approx(0.1 / 0.9)
    assert scale_statistics(np.full(7, -2.0)).tolist() == [2.0, 1.0]
    assert np.isnan(scale_statistics(np.zeros(5))[1])


@pytest.mark.parametrize("make", [vit, swin])
def test_every_place_in_order_of_depth(make) -> None:
    model = operated(make())
    result = cb_scale(model)
    found = [(n, m) for n, m in model.named_modules() if isinstance(m, ContextBroadcast)]
    assert list(result.module) == [name for name, _ in found]
    assert [u.kind for u in result.units] == ["mlp"] * len(found)
    assert list(result.channels) == [m.scale.numel() for _, m in found]
    assert [u.depth for u in result.units] == sorted(u.depth for u in result.units)
    for i, (_, module) in enumerate(found):
        size = module.scale.detach().abs().double()
        assert result.value[i, 0] == pytest.approx(size.mean().item())
        ratio = size.quantile(0.1).item() / size.quantile(0.9).item()
        assert result.value[i, 1] == pytest.approx(ratio)
    assert (result.low <= result.value).all()
    assert (result.value <= result.high).all()
    assert result.value[-1, 0] > result.value[0, 0]


def test_intervals_are_those_of_a_mean_over_channels() -> None:
    result = cb_scale(operated(vit()))
    model = operated(vit())
    size = next(m.scale for m in model.modules() if isinstance(m, ContextBroadcast)).detach().abs().numpy()
    half = 1.96 * size.std() / np.sqrt(len(size))
    assert result.high[0, 0] - result.value[0, 0] == pytest.approx(half, rel=0.15)


class OfOneSize(torch.nn.Module):
    """A ViT for 20 x 28 pixels that says so nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = torch.nn.Conv2d(3, 8, 4, 4)
        self.pos = torch.nn.Parameter(torch.randn(1, 35, 8))
        self.blocks = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(8, 2, 16) for _ in range(2)))
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2) + self.pos).mean(1))


@pytest.mark.parametrize("form", ["tensors", "loader"])
def test_images_say_what_size_a_model_is_for(form: str) -> None:
    model, data = OfOneSize().eval(), (torch.randn(4, 3, 20, 28), torch.zeros(4, dtype=torch.long))
    broadcast_context(model, kind="cb_s", layers="all", example=data[0])
    if form == "loader":
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=2)
    found = cb_scale(model, data)
    assert len(found.module) == 2
    assert diagnose(model, data, exams=["cb_scale"])["cb_scale"].module == found.module


def test_a_fresh_scale_has_no_ratio() -> None:
    model = vit()
    broadcast_context(model, kind="cb_s", layers="upper")
    result = cb_scale(model)
    assert result.value[:, 0].tolist() == [0.0]
    assert np.isnan(result.value[:, 1]).all()


@pytest.mark.parametrize("make", [vit, tiny])
def test_a_model_without_one_has_an_empty_result(make, tmp_path: Path) -> None:
    result = cb_scale(make(), (torch.zeros(1, 3, 32, 32), torch.zeros(1)))
    assert len(result.table()) == 0
    result.save(tmp_path)
    assert len(Result.load(tmp_path).table()) == 0


def test_table_and_disk(tmp_path: Path) -> None:
    result = cb_scale(operated(vit()), name="operated")
    table = result.table()
    assert table["quantity"].tolist() == ["mean", "mean", "ratio", "ratio"]
    assert table["n"].tolist() == [48] * 4
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, CbScaleResult)
    assert back.module == result.module
    np.testing.assert_array_equal(back.low, result.low)
