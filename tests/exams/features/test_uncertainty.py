"""The uncertainty exam against float64 standard deviations, and a branch whose spread is known."""

import math
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.attention_by_hand import vit_maps
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData, batches
from vitscope.exams import uncertainty
from vitscope.exams.features.uncertainty import SpreadOverPasses, spread_over_points
from vitscope.findings.uncertainty import UncertaintyResult
from vitscope.results import Result
from vitscope.surgery.mc_dropout import sampling


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], float]:
    maps = vit_maps(model, images.double())
    found = {unit: x.numpy().reshape(*x.shape[:2], -1).std(2, ddof=1).mean() for unit, x in maps.items()}
    return {("data_std", unit): value for unit, value in found.items()}


def test_spread_over_points_equals_numpy() -> None:
    feature = torch.randn(5, 7, 4, 6) * 3 + 100
    expected = feature.double().numpy().reshape(5, 7, 24).std(axis=2, ddof=1).mean(1)
    np.testing.assert_allclose(spread_over_points(feature), expected, rtol=1e-5)
    tokens = feature.contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(spread_over_points(tokens), expected, rtol=1e-5)
    assert spread_over_points(feature[..., :1, :1]).isnan().all()


@pytest.mark.any_order
def test_spread_over_passes_equals_numpy_far_from_zero() -> None:
    passes = torch.randn(6, 3, 4, 5, 5) * 0.01 + 50.0
    spread = SpreadOverPasses(torch.full((3, 4, 5, 5), 50.0))
    for feature in passes:
        spread.add(feature)
    expected = passes.double().numpy().std(axis=0, ddof=1).reshape(3, -1).mean(1)
    np.testing.assert_allclose(spread.mean(), expected, rtol=1e-4)


@torch.no_grad()
def test_equals_passes_of_a_copy_in_float64(small_vit: nn.Module, fashion: ImageData) -> None:
    result = uncertainty(small_vit, fashion, limit=12, batch_size=5, seed=3, passes=4, p=0.2)
    ((images, _, _),) = list(batches(fashion, small_vit, limit=12, batch_size=12, seed=3))
    copy = deepcopy(small_vit).eval()
    vs.surgery.mc_dropout(copy, p=0.2)
    parts = vs.anatomy(copy)
    with vs.Tap(copy, parts, features=True) as tap:
        copy(images)
        plain = {name: feature.double().numpy() for name, feature in tap.features.items()}
        passes: dict[str, list[np.ndarray]] = {name: [] for name in plain}
        with sampling(copy, seed=3):
            for _ in range(4):
                copy(images)
                for name, feature in tap.features.items():
                    passes[name].append(feature.double().numpy())
    assert result.source == "MC dropout, p = 0.2"
    assert (result.n, result.passes) == (12, 4)
    for i, unit in enumerate(result.units):
        feature = plain[unit.name]
        data = feature.reshape(*feature.shape[:2], -1).std(axis=2, ddof=1).mean(1)
        model = np.stack(passes[unit.name]).std(axis=0, ddof=1).reshape(12, -1).mean(1)
        expected = [data.mean(), model.mean(), (model**2 / (model**2 + data**2)).mean()]
        np.testing.assert_allclose(result.value[i], expected, rtol=1e-4, atol=1e-7)
        half = 2.200985 * data.std(ddof=1) / math.sqrt(12)
        assert result.high[i, 0] - result.value[i, 0] == pytest.approx(half, rel=1e-3)
    assert (result.value[0, 1:] == 0).all()  # the stem comes before any dropout
    assert (result.value[1:, 1] > 0).all()


class KnownSpread(nn.Module):
    """x + dropout(x): of x = 1 the sum is 1 or 1 + 1 / (1 - p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 3, 1)
        self.conv = nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.drop = nn.Dropout(p)
        self.head = nn.Linear(3, 2)
        with torch.no_grad():
            self.stem.weight.zero_()
            self.stem.bias.fill_(1.0)
            self.conv.weight.zero_()
            self.conv.weight[range(3), range(3), 1, 1] = 1.0

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.drop(self.conv(x))
        return self.head(x.mean((2, 3)))


def test_own_dropout_has_the_spread_of_a_coin() -> None:
    data = (torch.randn(6, 3, 16, 16), torch.zeros(6, dtype=torch.long))
    result = uncertainty(KnownSpread(0.25), data, passes=100, batch_size=4)
    assert result.source == "the model's own dropout"
    assert [unit.kind for unit in result.units] == ["stem", "conv"]
    np.testing.assert_allclose(result.value[0], [0.0, 0.0, 0.0], atol=1e-6)  # constant: neither spread
    assert result.value[1, 1] == pytest.approx(math.sqrt(0.25 / 0.75), rel=0.01)
    assert result.value[1, 0] == pytest.approx(0.0, abs=1e-6)
    assert result.value[1, 2] == pytest.approx(1.0)


class AttendsWithDropout(nn.Module):
    """A residual attention whose dropout is not a module."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 4, 4)
        self.attn = nn.MultiheadAttention(12, 3, dropout=0.3, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(12, 12), nn.GELU(), nn.Dropout(0.1), nn.Linear(12, 12))
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).mT
        x = x + self.attn(x, x, x, need_weights=False)[0]
        x = x + self.mlp(x)
        return self.head(self.norm(x).mean(1))


@torch.no_grad()
def test_dropout_inside_attention_counts() -> None:
    torch.manual_seed(0)
    model, images = AttendsWithDropout().eval(), torch.randn(6, 3, 16, 16)
    result = uncertainty(model, (images, torch.zeros(6, dtype=torch.long)), passes=200)
    assert result.source == "the model's own dropout"
    maps: list[Tensor] = []
    model.mlp.register_forward_pre_hook(lambda _, args: maps.append(args[0]))
    model.attn.training = True
    for _ in range(200):
        model(images)
    expected = torch.stack(maps).std(0).mean()
    at = [unit.name for unit in result.units].index("attn")
    assert result.value[at, 1] == pytest.approx(float(expected), rel=0.05)


class DropsInItsHead(KnownSpread):
    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.conv(x)
        return self.head(self.drop(x.mean((2, 3))))


def test_draws_that_reach_no_map_are_replaced_by_dropout_that_does() -> None:
    data = (torch.randn(6, 3, 16, 16), torch.zeros(6, dtype=torch.long))
    result = uncertainty(DropsInItsHead(0.25), data, passes=100, p=0.2)
    assert result.source == "MC dropout, p = 0.2"
    assert result.value[0, 1] == 0.0
    assert result.value[1, 1] == pytest.approx(
        math.sqrt(0.2 / 0.8), rel=0.05
    )  # one mask for all images: fewer coins


def test_pieces_change_nothing(
    small_vit: nn.Module, fashion: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = uncertainty(small_vit, fashion, limit=9, passes=2)
    monkeypatch.setattr(sys.modules["vitscope.exams.features.uncertainty"], "MOST_NUMBERS", 1)
    pieces = uncertainty(small_vit, fashion, limit=9, passes=2)
    np.testing.assert_allclose(whole.value, pieces.value, rtol=1e-5, atol=1e-7)
    assert uncertainty(small_vit, fashion, passes=2, most=7).n == 7


def test_the_model_is_left_as_it_was(small_vit: nn.Module, fashion: ImageData) -> None:
    before = {name: value.clone() for name, value in small_vit.state_dict().items()}
    random = torch.get_rng_state()
    uncertainty(small_vit.train(), fashion, limit=4, passes=2)
    assert small_vit.training
    torch.testing.assert_close(dict(small_vit.state_dict()), before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(module._forward_pre_hooks for module in small_vit.modules())


def test_a_model_without_a_place_for_dropout_has_no_spread_over_passes(tmp_path: Path) -> None:
    plain = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    data = (torch.randn(8, 3, 16, 16), torch.zeros(8, dtype=torch.long))
    with pytest.warns(UserWarning, match="no spread over passes"):
        result = vs.diagnose(plain, data, ["uncertainty"], out=tmp_path)["uncertainty"]
    assert isinstance(result, UncertaintyResult)
    assert (result.passes, result.source) == (0, "")
    assert np.isfinite(result.value[:1, 0]).all()
    assert np.isnan(result.value[:, 1:]).all()
    again = Result.load(tmp_path / "exams" / "uncertainty")
    assert again.table().equals(result.table())


def test_what_cannot_be_measured_is_said(small_vit: nn.Module, fashion: ImageData) -> None:
    with pytest.raises(VitscopeError, match="passes is 1"):
        uncertainty(small_vit, fashion, limit=4, passes=1)
    with torch.no_grad():
        small_vit.blocks[1].mlp.fc2.weight.fill_(torch.nan)  # type: ignore[index, operator, union-attr]
    with pytest.raises(VitscopeError, match=r"'blocks\.1\.mlp' are not finite"):
        uncertainty(small_vit, fashion, limit=4, passes=2)
