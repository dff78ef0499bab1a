from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data import ImageData
from vitscope.engine.exam import ProcedureSums
from vitscope.engine.own_passes import examine_pair, own_passes
from vitscope.engine.takes_interface import Request
from vitscope.exams import lesion, prediction
from vitscope.exams.features.cka import CkaAccumulator
from vitscope.findings.cka import CkaResult
from vitscope.models import create_model


def test_the_model_is_in_its_place_and_the_images_are_all_there(
    small_vit: nn.Module, fashion: ImageData
) -> None:
    small_vit.train()
    with own_passes(small_vit, fashion, Request(21, 8, 3, None, "mine")) as own:
        assert not small_vit.training
        assert own.anatomy.input_shape == (3, 32, 32)
        assert own.n_images == 21
        assert [len(labels) for _, labels, _ in own.stream] == [8, 8, 5]
        assert own.common == {
            "model": "mine",
            "data": "fashion (test)",
            "seed": 3,
            "images_digest": "",  # a name is enough
        }
        assert (own.device.type, own.dtype) == ("cpu", torch.float32)
    assert small_vit.training


def test_data_that_can_be_read_once_is_read_once(small_vit: nn.Module) -> None:
    read = []

    class Once(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self):
            for i in range(10):
                read.append(i)
                yield torch.randn(3, 32, 32), i

        def __len__(self) -> int:
            return 10

    with own_passes(small_vit, Once(), Request(None, 4)) as own:
        labels = [int(label) for _, some, _ in own.stream for label in some]
    assert labels == read == list(range(10))


def test_noise_is_the_same_everywhere(small_vit: nn.Module, fashion: ImageData) -> None:
    with own_passes(small_vit.double(), fashion, Request(4, 4)) as own:
        noise = own.noise(64, seed=5)
        assert noise.shape == (64, 3, 32, 32)
        assert noise.dtype == torch.float64
        torch.manual_seed(9)
        torch.testing.assert_close(own.noise(64, seed=5), noise, rtol=0, atol=0)
        assert (own.noise(64, seed=6) != noise).any()
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.01)
    assert float(noise.std()) == pytest.approx(1.0, abs=0.01)


def test_labels_are_compared_only_where_they_matter(fashion: ImageData) -> None:
    model = create_model("resnet_mini", num_classes=4)
    with own_passes(model, fashion, Request(8, 8)):
        pass
    with (
        pytest.raises(BadData, match="num_classes=10"),
        own_passes(model, fashion, Request(8, 8), labelled=True),
    ):
        pass


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("classes", [10, None, [], np.arange(10), [f"kind {k}" for k in range(10)]])
def test_data_of_ones_own_may_say_anything_about_its_classes(small_vit: nn.Module, classes: Any) -> None:
    data = TensorDataset(torch.randn(6, 3, 32, 32), torch.arange(6))
    data.classes = classes  # type: ignore[attr-defined]
    assert prediction(small_vit, data).n == 6
    assert lesion(small_vit, DataLoader(data, 3)).n == 6


class Total(ProcedureSums):
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_sum("total", (2,))

    def update(self, numbers: Tensor) -> None:
        self.total += numbers

    def compute(self) -> dict[str, np.ndarray]:
        return {"total": self.total.numpy().copy()}


@pytest.mark.filterwarnings("error")
def test_numbers_are_summed_and_a_process_without_any_is_no_mistake() -> None:
    numbers = Total()
    np.testing.assert_array_equal(numbers.finish()["total"], [0.0, 0.0])
    numbers = Total()
    for _ in range(3):
        numbers.update(torch.tensor([1.0, 2.0]))
    np.testing.assert_array_equal(numbers.finish()["total"], [3.0, 6.0])


def compared(model: nn.Module, other: nn.Module, data: object, **options: int) -> CkaResult:
    result = examine_pair(model, other, data, CkaAccumulator, Request(**options))
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
