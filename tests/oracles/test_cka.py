"""CKA against pytorch-cka, on a model whose blocks put out exactly the stream after their last unit."""

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from vitscope.exams import cka

oracle = pytest.importorskip("cka", reason="pip install pytorch-cka")


def vit() -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=32,
        patch_size=8,
        embed_dim=24,
        depth=3,
        num_heads=2,
        class_token=False,
        global_pool="avg",
    )
    for weights in model.get_submodule("blocks").parameters():
        weights.data *= 8  # as initialised, blocks do next to nothing
    return model.double().eval()


def loader(offset: float, dtype: torch.dtype) -> DataLoader[tuple[Tensor, ...]]:
    images = torch.randn(60, 3, 32, 32, generator=torch.Generator().manual_seed(1)) + offset
    return DataLoader(TensorDataset(images.to(dtype), torch.zeros(60, dtype=torch.long)), batch_size=20)


@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_blocks_of_a_vit(offset: float) -> None:
    model = vit()
    names = [f"blocks.{i}" for i in range(3)]
    expected = oracle.compute_cka(model, model, loader(offset, torch.float64), layers=names, device="cpu")[0]
    result = cka(model, loader(offset, torch.float32))
    rows = [i for i, unit in enumerate(result.units) if unit.name in [f"{name}.mlp" for name in names]]
    assert len(rows) == 3
    np.testing.assert_allclose(result.value[np.ix_(rows, rows)], np.asarray(expected), atol=1e-5)
    assert 0.05 < np.asarray(expected).min() < 0.9
