import pytest
import torch
import torch.nn.functional as F

from tests.curvature.double_backward.check import same_as_torch
from vitscope.curvature.double_backward.normalisation import batch_norm, layer_norm


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2, 5), (2, 3, 7)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_in_evaluation_mode(shape: tuple[int, ...], affine: bool) -> None:
    mean, variance = torch.randn(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64) + 0.1
    tensors = [torch.randn(s, dtype=torch.float64) for s in (shape, (3,), (3,))][: 3 if affine else 1]
    same_as_torch(
        lambda x, *rest: batch_norm(x, mean, variance, *rest, eps=1e-3),
        lambda x, *rest: F.batch_norm(x, mean, variance, *rest, eps=1e-3),
        *tensors,
    )


def test_batch_norm_with_the_batch_statistics() -> None:
    x = torch.randn(4, 3, 2, 5, dtype=torch.float64)
    same_as_torch(
        lambda x: batch_norm(x, None, None, training=True),
        lambda x: F.batch_norm(x, None, None, training=True),
        x,
    )


@pytest.mark.parametrize("shape", [(5, 6), (2, 3, 6), (2, 2, 3, 6)])
@pytest.mark.parametrize("scale", [1.0, 1e-2])  # at the small one eps matters
def test_layer_norm(shape: tuple[int, ...], scale: float) -> None:
    tensors = [torch.randn(s, dtype=torch.float64) for s in (shape, (6,), (6,))]
    tensors[0] = scale * tensors[0] + 0.5
    same_as_torch(
        lambda x, w, b: layer_norm(x, (6,), w, b, 1e-3),
        lambda x, w, b: F.layer_norm(x, (6,), w, b, 1e-3),
        *tensors,
    )


def test_layer_norms_that_are_torchs_own() -> None:
    x = torch.randn(4, 2, 6, dtype=torch.float64)
    same_as_torch(lambda x: layer_norm(x, (6,)), lambda x: F.layer_norm(x, (6,)), x)
    weights = torch.randn(2, 2, 6, dtype=torch.float64)
    same_as_torch(
        lambda x, w, b: layer_norm(x, (2, 6), w, b),
        lambda x, w, b: F.layer_norm(x, (2, 6), w, b),
        x,
        *weights,
    )
