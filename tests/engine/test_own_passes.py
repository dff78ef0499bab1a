import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vitscope.core.errors import BadData
from vitscope.data import ImageData
from vitscope.engine.own_passes import OwnNumbers, own_passes
from vitscope.models import create_model


def test_the_model_is_in_its_place_and_the_images_are_all_there(
    small_vit: nn.Module, fashion: ImageData
) -> None:
    small_vit.train()
    with own_passes(small_vit, fashion, 21, 8, 3, None, "mine") as own:
        assert not small_vit.training
        assert own.parts.input_shape == (3, 32, 32)
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

    with own_passes(small_vit, Once(), None, 4, 0, None, None) as own:
        labels = [int(label) for _, some, _ in own.stream for label in some]
    assert labels == read == list(range(10))


def test_noise_is_the_same_everywhere(small_vit: nn.Module, fashion: ImageData) -> None:
    with own_passes(small_vit.double(), fashion, 4, 4, 0, None, None) as own:
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
    with own_passes(model, fashion, 8, 8, 0, None, None):
        pass
    with (
        pytest.raises(BadData, match="num_classes=10"),
        own_passes(model, fashion, 8, 8, 0, None, None, labelled=True),
    ):
        pass


class Total(OwnNumbers):
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
