from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.attention_by_hand import images, swin, swin_attention, vit, vit_attention
from tests.exams.factories import tiny
from vitscope.exams.attention.softmax_gradient import nuclear_norm, softmax_gradient
from vitscope.findings.softmax_gradient import SoftmaxGradientResult
from vitscope.results import Result


def test_the_norm_is_that_of_the_jacobian_by_automatic_differentiation_and_svd() -> None:
    scores = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    for row in scores:
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), row)
        assert isinstance(jacobian, torch.Tensor)
        singular = torch.linalg.svdvals(jacobian)
        assert nuclear_norm(row.softmax(0)).item() == pytest.approx(singular.sum().item(), rel=1e-12)


def test_uniform_attention_is_the_steepest_and_a_single_key_is_flat() -> None:
    uniform = torch.full((8,), 1 / 8, dtype=torch.float64)
    assert nuclear_norm(uniform).item() == pytest.approx(7 / 8)
    assert nuclear_norm(torch.eye(8, dtype=torch.float64)[0]).item() == 0
    others = torch.rand(100, 8, dtype=torch.float64).log().mul(2).softmax(1)
    assert (nuclear_norm(others) < 7 / 8).all()


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], list[float]]:
    found = {}
    for i, (weights, _) in enumerate(vit_attention(model, images.double())):
        heads = (1 - weights.square().sum(3)).mean((0, 2)).tolist()
        rows = [np.mean(heads), *heads]
        found["gradient", f"blocks.{i}.attn"] = rows
        found["share", f"blocks.{i}.attn"] = [row / (1 - 1 / 17) for row in rows]
    return found


def test_windows_count_alike() -> None:
    batch, labels = images(3)
    result = softmax_gradient(swin(), (batch, labels))
    for unit, weights in enumerate(swin_attention(swin().double(), batch.double())):
        expected = (1 - weights.square().sum(4)).mean((0, 1, 3)).numpy()
        rows = (result.row_unit == unit) & (result.head >= 0)
        np.testing.assert_allclose(result.of("gradient")[0][rows], expected, rtol=1e-5)


def test_no_attention_and_disk(tmp_path: Path) -> None:
    empty = softmax_gradient(tiny(), (torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.long)))
    assert len(empty.table()) == 0
    result = softmax_gradient(vit(), images())
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, SoftmaxGradientResult)
    np.testing.assert_array_equal(back.value, result.value)
    assert back.summary()["quantity"].tolist() == ["gradient"] * 2 + ["share"] * 2
    assert (result.low <= result.value).all()
