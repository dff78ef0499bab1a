import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data import ImageData
from vitscope.engine.two_models import examine_pair
from vitscope.exams.features.cka import CkaAccumulator
from vitscope.findings.cka import CkaResult
from vitscope.models import create_model


def compared(model: nn.Module, other: nn.Module, data: object, **options: int) -> CkaResult:
    result = examine_pair(model, other, data, CkaAccumulator, **options)
    assert isinstance(result, CkaResult)
    return result


def loader(n: int = 8) -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(
        TensorDataset(torch.randn(n, 3, 32, 32), torch.zeros(n, dtype=torch.long)), batch_size=4
    )


def test_each_model_gets_the_images_it_wants(small_vit: nn.Module, fashion: ImageData) -> None:
    other = create_model("resnet_mini", img_size=64)
    sizes: list[tuple[int, ...]] = []
    hooks = [
        m.register_forward_hook(lambda _, args, __: sizes.append(tuple(args[0].shape)))
        for m in (small_vit, other)
    ]
    result = compared(small_vit, other, fashion, limit=10, batch_size=6)
    for hook in hooks:
        hook.remove()
    passes = [(n, side) for n, _, side, _ in sizes if n != 2]  # anatomy looks at two images
    assert passes == [(6, 32), (6, 64), (4, 32), (4, 64)]
    assert (result.n, result.batches) == (10, 2)
    assert (result.units[0].map_shape or ())[1:] == (8, 8)


def test_a_loader_is_read_once_for_both(small_vit: nn.Module) -> None:
    result = compared(small_vit, small_vit, loader())
    assert (result.n, result.batches, result.data) == (8, 2, "DataLoader")
    with pytest.raises(BadData, match=r"different ways.*load_data"):
        compared(small_vit, create_model("resnet_mini", img_size=64), loader())


def test_both_models_are_left_as_they_were(small_vit: nn.Module, fashion: ImageData) -> None:
    other = create_model("resnet_mini").train()
    before = {name: value.clone() for name, value in other.state_dict().items()}
    compared(small_vit.train(), other, fashion, limit=8)
    assert all(module.training for module in [*small_vit.modules(), *other.modules()])
    for name, value in other.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_model_without_maps_is_named(small_vit: nn.Module) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    images = (torch.randn(8, 3, 32, 32), torch.zeros(8, dtype=torch.long))
    with pytest.raises(UnsupportedModel, match="no unit"):
        compared(small_vit, flat, images)
