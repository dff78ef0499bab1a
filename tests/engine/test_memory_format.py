import pytest
import torch
from torch import nn

from tests.exams.landscape_cases import convolutional, images, linear
from vitscope.core.errors import VitscopeError
from vitscope.engine.held_batch import HeldBatch
from vitscope.engine.memory_format import check_format, faster_format, laid_out
from vitscope.tasks import Classification


def test_weights_lie_the_other_way_inside_and_are_the_same_tensors_outside() -> None:
    model = convolutional()
    model.register_buffer("kernel", torch.ones(2, 3, 2, 2))
    before = {name: (t.data_ptr(), t.stride()) for name, t in model.state_dict().items()}
    kernel = model.kernel
    expected = model(images()[0])
    with laid_out(model, "channels_last"):
        assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(model(images()[0]), expected)
    assert {name: (t.data_ptr(), t.stride()) for name, t in model.state_dict().items()} == before
    assert model.kernel is kernel


def test_the_faster_one_is_found_by_trying() -> None:
    pictures = HeldBatch(Classification(), *images(), [()] * 12)
    assert faster_format(linear(), pictures) == "contiguous"  # nothing to try without convolutions

    class Slow(nn.Module):
        """Twice the work for images that lie one way."""

        def __init__(self, slow: torch.memory_format) -> None:
            super().__init__()
            self.slow, self.net = slow, convolutional()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(40 if x.is_contiguous(memory_format=self.slow) else 1):
                out = self.net(x)
            return out

    assert faster_format(Slow(torch.contiguous_format), pictures) == "channels_last"
    assert faster_format(Slow(torch.channels_last), pictures) == "contiguous"


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(
        VitscopeError, match="memory_format is 'nhwc'; expected auto, contiguous, channels_last"
    ):
        check_format("nhwc")
