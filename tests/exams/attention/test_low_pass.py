from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn

from tests.exams.attention_by_hand import images, swin, swin_attention, vit, vit_attention
from tests.exams.factories import tiny
from vitscope.anatomy import anatomy
from vitscope.exams.attention.low_pass import decay, low_pass, repeatable
from vitscope.findings.low_pass import APPLICATIONS, QUANTITIES, LowPassResult
from vitscope.results import Result


def remaining(a: np.ndarray, v: np.ndarray, k: int, prefix: int) -> float:
    """Spread over the points after k applications, relative to that before."""

    def spread(x: np.ndarray) -> float:
        return float(np.sqrt(np.square(x[prefix:] - x[prefix:].mean(0)).sum()))

    return spread(np.linalg.matrix_power(a, k) @ v) / spread(v)


def numbers(found: torch.Tensor) -> dict[str, float]:
    return dict(zip(QUANTITIES, found[0, 0].tolist(), strict=True))


def test_closed_form_half_identity_half_uniform() -> None:
    share = 0.25
    weights = share * torch.eye(10) + (1 - share) / 10
    values = torch.randn(1, 1, 1, 10, 4) + 50
    found = numbers(decay(weights[None, None, None], values, torch.ones(10, dtype=torch.bool)))
    assert found["rate"] == pytest.approx(share, rel=1e-4)
    for k in APPLICATIONS:
        assert found[f"remaining_{k}"] == pytest.approx(share**k, rel=1e-3)


@pytest.mark.parametrize("spread", [0.3, 1e-2, 1e-3])
@pytest.mark.parametrize("prefix", [0, 1])
def test_nearly_uniform_attention_against_float64(spread: float, prefix: int) -> None:
    generator = torch.Generator().manual_seed(2)
    weights = (spread * torch.randn(2, 3, 64 + prefix, 64 + prefix, generator=generator)).softmax(-1)
    values = torch.randn(2, 3, 64 + prefix, 8, generator=generator) + 3
    points = torch.arange(64 + prefix) >= prefix
    found = decay(weights[:, None], values[:, None], points)
    for image in range(2):
        for head in range(3):
            a, x = weights[image, head].double().numpy(), values[image, head].double().numpy()
            a /= a.sum(1, keepdims=True)
            left = []
            for _ in range(9):
                x = x - x[prefix:].mean(0)
                left.append(np.linalg.norm(x[prefix:]))
                x = a @ x
            expected = [(left[8] / left[4]) ** 0.25, *(left[k] / left[0] for k in APPLICATIONS)]
            np.testing.assert_allclose(found[image, head], expected, rtol=1e-5)


def test_the_rate_is_the_second_eigenvalue() -> None:
    generator = torch.Generator().manual_seed(1)
    points = torch.arange(30.0)
    scores = -((points[:, None] - points) ** 2) / 6 + 0.1 * torch.randn(30, 30, generator=generator)
    weights = scores.softmax(1)
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(weights.double().numpy())))
    vector = np.linalg.eig(weights.double().numpy())
    slow = vector.eigenvectors[:, np.argsort(np.abs(vector.eigenvalues))[-2]].real
    values = torch.from_numpy(slow).float()[None, None, None, :, None]
    found = numbers(decay(weights[None, None, None], values, torch.ones(30, dtype=torch.bool)))
    assert eigenvalues[-1] == pytest.approx(1)
    assert found["rate"] == pytest.approx(eigenvalues[-2], rel=1e-3)


def test_permuting_points_removes_nothing_and_uniform_attention_everything() -> None:
    values = torch.randn(1, 1, 1, 6, 3)
    everything = torch.ones(6, dtype=torch.bool)
    shifted = numbers(decay(torch.eye(6).roll(1, 0)[None, None, None], values, everything))
    assert shifted["rate"] == pytest.approx(1, rel=1e-5)
    uniform = numbers(decay(torch.full((1, 1, 1, 6, 6), 1 / 6), values, everything))
    assert uniform["remaining_1"] < 1e-6


def test_constant_values_have_nothing_to_remove() -> None:
    found = decay(
        torch.full((1, 1, 1, 4, 4), 0.25), torch.ones(1, 1, 1, 4, 2), torch.ones(4, dtype=torch.bool)
    )
    assert found.tolist() == [[[0.0] * len(QUANTITIES)]]


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], list[float]]:
    found = {}
    for i, (weights, values) in enumerate(vit_attention(model, images.double())):
        each = [  # (images, heads, applications)
            [[remaining(a, v, k, 1) for k in APPLICATIONS] for a, v in zip(*heads, strict=True)]
            for heads in zip(weights.numpy(), values.numpy(), strict=True)
        ]
        left = dict(zip(APPLICATIONS, np.moveaxis(each, 2, 0), strict=True))
        numbers = {f"remaining_{k}": share for k, share in left.items()} | {
            "rate": (left[8] / left[4]) ** 0.25
        }
        for quantity, own in numbers.items():
            found[quantity, f"blocks.{i}.attn"] = [own.mean(), *own.mean(0)]
    return found


def test_windows_put_together_across_the_edge_are_left_out() -> None:
    units = [u for u in anatomy(swin(), (3, 32, 32)) if u.attention]
    kept = []
    for unit in units:
        assert unit.attention is not None
        places = unit.attention.sites[0].places
        assert places is not None
        kept.append(repeatable(unit, places).tolist())
    assert kept == [[0, 1, 2, 3], [0], [0]]


def test_swin_windows_by_brute_force() -> None:
    model, (batch, labels) = swin(), images(2)
    result = low_pass(model, (batch, labels))
    values: list[torch.Tensor] = []

    def look(module, args, kwargs) -> None:
        values.append(
            module.qkv(args[0])
            .unflatten(2, (3, module.num_heads, -1))[:, :, 2]
            .transpose(1, 2)
            .unflatten(0, (2, -1))
        )

    exact = swin().double()
    blocks = [block for layer in exact.layers for block in layer.blocks]
    hooks = [block.attn.register_forward_pre_hook(look, with_kwargs=True) for block in blocks]
    found = swin_attention(exact, batch.double())
    for hook in hooks:
        hook.remove()
    a, v = found[0].detach().numpy(), values[0].detach().numpy()  # (N, windows, heads, 16, ...)

    def spread(x: np.ndarray) -> float:
        return float(np.sqrt(np.square(x - x.mean(1, keepdims=True)).sum()))

    for head in range(2):
        expected = [
            spread(np.linalg.matrix_power(a[n, :, head], 4) @ v[n, :, head]) / spread(v[n, :, head])
            for n in range(2)
        ]
        at = np.flatnonzero((result.row_unit == 0) & (result.head == head))[0]
        assert result.of("remaining_4")[0][at] == pytest.approx(np.mean(expected), rel=1e-3)


def test_what_cannot_be_applied_again_has_a_reason() -> None:
    model = timm.create_model("pvt_v2_b0")
    result = low_pass(model, (torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long)))
    reasons = dict(result.skipped)
    assert "cannot be applied again" in reasons["stages.0.blocks.0.attn"]
    assert [u.name for u in result.units] == ["stages.3.blocks.0.attn", "stages.3.blocks.1.attn"]


def test_no_attention_and_disk(tmp_path: Path) -> None:
    empty = low_pass(tiny(), (torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.long)))
    assert len(empty.table()) == 0
    result = low_pass(vit(), images())
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, LowPassResult)
    np.testing.assert_array_equal(back.value, result.value)
    assert back.summary()["quantity"].iloc[0] == "rate"
