from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn

from tests.cases import ATTENTION_DESIGNS, Case
from tests.exams.attention_by_hand import images, swin, swin_attention, vit, vit_attention, window_points
from tests.exams.factories import tiny
from vitscope.anatomy import anatomy
from vitscope.exams.attention.attention import BINS, attention
from vitscope.findings.attention import QUANTITIES, AttentionResult
from vitscope.results import Result


def entropies(a: np.ndarray) -> np.ndarray:
    return -np.where(a > 0, a * np.log(np.where(a > 0, a, 1)), 0).sum(-1)


def distances(a: np.ndarray, y: np.ndarray, x: np.ndarray) -> float:
    """Mean over queries i of the sum over keys j of a_ij |p_i - p_j|, by two loops."""
    total = 0.0
    for i in range(len(a)):
        for j in range(len(a)):
            total += a[i, j] * (abs(y[i] - y[j]) + abs(x[i] - x[j]))
    return total / len(a)


def similarity(maps: np.ndarray, head: int) -> float:
    """Mean cosine of a head's map with those of the others."""
    flat = maps.reshape(len(maps), -1)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    return float(np.mean([unit[head] @ unit[h] for h in range(len(maps)) if h != head]))


def row(result: AttentionResult, unit: int, head: int) -> dict[str, float]:
    at = np.flatnonzero((result.row_unit == unit) & (result.head == head))
    assert len(at) == 1
    return dict(zip(QUANTITIES, result.value[at[0]], strict=True))


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], list[float]]:
    y, x = np.divmod(np.arange(16), 4)
    found: dict[tuple[str, str], list[float]] = {}
    for i, (weights, _) in enumerate(vit_attention(model, images.double())):
        a = weights.numpy()
        points = a[:, :, 1:, 1:]
        distance = np.array([[distances(p, y / 4, x / 4) for p in heads] for heads in points])
        numbers = {  # (images, heads)
            "entropy": entropies(a).mean(2),
            "class_entropy": entropies(a[:, :, 0]),
            "distance": distance,
            "distance_patches": 4 * distance,
            "prefix": a[:, :, 1:, 0].mean(2),
            "diagonal": np.diagonal(points, axis1=2, axis2=3).mean(2),
            "similarity": np.array([[similarity(heads, h) for h in range(len(heads))] for heads in a]),
        }
        for quantity, own in numbers.items():
            found[quantity, f"blocks.{i}.attn"] = [own.mean(), *own.mean(0)]
        found["entropy_bound", f"blocks.{i}.attn"] = [np.log(17)]
    return found


def test_intervals_and_percentiles_of_a_vit_taken_apart_in_float64() -> None:
    batch, labels = images()
    result = attention(vit(), (batch, labels), batch_size=4)
    assert [u.name for u in result.units] == ["blocks.0.attn", "blocks.1.attn"]
    assert result.head.tolist() == [-1, 0, 1, 2] * 2
    for unit, (weights, _) in enumerate(vit_attention(vit().double(), batch.double())):
        a = weights.numpy()
        per_image = entropies(a).mean((1, 2))
        at = np.flatnonzero((result.row_unit == unit) & (result.head < 0))[0]
        half = 2.570581836 * per_image.std(ddof=1) / np.sqrt(6)  # t quantile with 5 degrees of freedom
        assert result.high[at, 0] - result.value[at, 0] == pytest.approx(half, rel=1e-3)
        exact = np.quantile(entropies(a), 0.15, method="inverted_cdf")
        assert result.percentile.value[at] == pytest.approx(exact, abs=np.log(17) / BINS)


def test_swin_equals_brute_force_also_where_windows_are_shifted() -> None:
    model, (batch, labels) = swin(), images(3)
    result = attention(model, (batch, labels), batch_size=2)
    found = swin_attention(swin().double(), batch.double())
    grids = [window_points(8, 8, 4, 0), window_points(8, 8, 4, 2), window_points(4, 4, 4, 0)]
    for unit, (weights, windows, side) in enumerate(zip(found, grids, (8, 8, 4), strict=True)):
        y, x = np.divmod(windows.numpy(), side)
        for head in range(weights.shape[2]):
            a = weights[:, :, head].numpy()
            numbers = row(result, unit, head)
            expected = [
                distances(a[n, w], y[w] / side, x[w] / side) for n in range(3) for w in range(len(windows))
            ]
            assert numbers["entropy"] == pytest.approx(entropies(a).mean(), rel=1e-4)
            assert numbers["distance"] == pytest.approx(np.mean(expected), rel=1e-4)
            assert numbers["distance_patches"] == pytest.approx(side * np.mean(expected), rel=1e-4)
            assert numbers["prefix"] == 0
            diagonal = np.diagonal(a, axis1=2, axis2=3).mean()
            assert numbers["diagonal"] == pytest.approx(diagonal, rel=1e-4)
            alike = [similarity(np.moveaxis(weights[n].numpy(), 1, 0), head) for n in range(3)]
            assert numbers["similarity"] == pytest.approx(np.mean(alike), rel=1e-4)
    np.testing.assert_allclose(result.bound, np.log(16))


def test_fused_and_explicit_attention_agree() -> None:
    fused, explicit = vit(), vit()
    for block in explicit.blocks:
        assert block.attn.fused_attn
        block.attn.fused_attn = False
    a, b = (attention(model, images()) for model in (fused, explicit))
    np.testing.assert_allclose(a.value, b.value, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(a.percentile.value, b.percentile.value, rtol=1e-4, atol=1e-4)


def test_uniform_attention_reaches_the_bound() -> None:
    model = vit()
    for block in model.blocks:
        block.attn.qkv.weight.data.zero_()
    result = attention(model, images())
    entropy, _, _ = result.of("entropy")
    np.testing.assert_allclose(entropy, np.log(17), rtol=1e-5)
    np.testing.assert_allclose(result.percentile.value, np.log(17), atol=np.log(17) / BINS)
    np.testing.assert_allclose(result.of("similarity")[0], 1.0, rtol=1e-5)
    np.testing.assert_allclose(result.of("prefix")[0], 1 / 17, rtol=1e-5)
    mean = np.mean([abs(i - j) / 4 for i in range(4) for j in range(4)])
    np.testing.assert_allclose(result.of("distance")[0], 2 * mean * 16 / 17, rtol=1e-5)


@pytest.mark.parametrize("case", ATTENTION_DESIGNS, ids=lambda c: c.name)
def test_every_design_gives_numbers_inside_their_bounds_or_a_reason(case: Case) -> None:
    model, batch = case.model(), case.images(2)
    result = attention(model, (batch, torch.zeros(2, dtype=torch.long)))
    assert len(result.units) + len(result.skipped) > 0
    assert all(reason for _, reason in result.skipped)
    rows = result.bound[result.row_unit]
    entropy, _, _ = result.of("entropy")
    assert (entropy >= 0).all()
    assert (entropy <= rows * (1 + 1e-5) + 1e-6).all()
    assert (result.percentile.value <= rows + 1e-9).all()
    for name, most in (("distance", 2.0), ("prefix", 1.0), ("diagonal", 1.0), ("similarity", 1.0)):
        values = result.of(name)[0]
        known = np.isfinite(values)
        assert ((values[known] >= -1e-6) & (values[known] <= most + 1e-5)).all(), name
    parts = anatomy(model, case.size)
    distance = result.of("distance")[0][result.layers]
    for unit, value in zip(result.units, distance, strict=True):
        attends = parts[unit.name].attention
        assert attends is not None
        assert np.isfinite(value) == (attends.pattern != "class"), unit.name


def test_class_attention_has_an_entropy_but_no_distance() -> None:
    model = timm.create_model("cait_xxs24_224", img_size=64, depth=1)
    result = attention(model, (torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long)))
    last = row(result, len(result.units) - 1, 0)
    assert np.isfinite(last["entropy"])
    assert last["class_entropy"] == pytest.approx(last["entropy"])
    assert np.isfinite(last["prefix"])
    assert np.isnan(last["distance"])
    assert np.isnan(last["diagonal"])


def test_attention_over_channels_is_left_out_with_the_reason() -> None:
    model = timm.create_model("xcit_nano_12_p16_224", img_size=64)
    result = attention(model, (torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long)))
    assert ("blocks.0.attn", "it attends over channels, not over points") in result.skipped
    assert all(u.name.startswith("cls_attn") for u in result.units)


def test_a_model_without_attention_has_an_empty_result(tmp_path: Path) -> None:
    result = attention(tiny(), (torch.randn(4, 3, 32, 32), torch.zeros(4, dtype=torch.long)))
    assert result.units == ()
    assert len(result.table()) == 0
    assert result.n == 4
    result.save(tmp_path)
    assert len(Result.load(tmp_path).table()) == 0


def test_disk_keeps_everything(tmp_path: Path) -> None:
    whole = attention(vit(), images(7))
    whole.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, AttentionResult)
    np.testing.assert_array_equal(back.percentile.low, whole.percentile.low)
    table = back.table()
    assert set(table["quantity"]) == {*QUANTITIES, "entropy_p15", "entropy_bound"}
    assert back.summary()["quantity"].iloc[0] == "entropy"
    assert len(back.summary().query("quantity == 'entropy'")) == 2


def test_local_attention_is_bounded_by_its_neighbourhood() -> None:
    from vitscope.surgery import localize

    model = localize(vit(), kernel=3)
    result = attention(model, images())
    seen = [(2, 3, 3, 2)[y] * (2, 3, 3, 2)[x] + 1 for y in range(4) for x in range(4)]  # and the class token
    np.testing.assert_allclose(result.bound, np.log([17, *seen]).mean())
    assert (result.of("distance")[0] <= 2 * 0.25 + 1e-6).all()


def test_uniform_local_attention_reaches_its_bound() -> None:
    """Prefix tokens see everything, and their entropy is counted in full."""
    from vitscope.exams.attention.softmax_gradient import softmax_gradient
    from vitscope.surgery import localize

    model = vit()
    for name, parameter in model.named_parameters():
        if "qkv" in name:
            parameter.data.zero_()
    localize(model, kernel=3)
    result = attention(model, images())
    np.testing.assert_allclose(result.of("entropy")[0], result.bound[result.row_unit], rtol=1e-5)
    np.testing.assert_allclose(result.of("class_entropy")[0], np.log(17), rtol=1e-5)
    np.testing.assert_allclose(softmax_gradient(model, images()).of("share")[0], 1.0, rtol=1e-5)
