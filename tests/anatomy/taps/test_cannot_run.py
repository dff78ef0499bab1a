"""Images that a model does not take are refused in words, whatever looks at them."""

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.anatomy.taps.cannot_run import runs_on
from vitscope.core.errors import UnsupportedModel, VitscopeError

EXAMS = {
    "prediction": {},
    "hessian": {"batches": 1, "batch_size": 4},
    "hessian_density": {"batches": 1, "batch_size": 4},
    "landscape": {},
    "landscape_line": {},
    "passes": {},
    "variance": {},
}


@pytest.fixture(scope="module")
def vit() -> nn.Module:
    return vs.create_model("vit_mini", pretrained=False)


@pytest.mark.parametrize(
    ("shape", "says", "torch_says"),
    [
        ((5, 32, 32), "the images have 5 channels and it takes 3; give it images of as many", "RuntimeError"),
        ((3, 48, 48), "AssertionError: Input height", "AssertionError"),
    ],
)
@pytest.mark.parametrize("exam", EXAMS)
def test_every_exam_says_which_images_the_model_expects(
    vit: nn.Module, exam: str, shape: tuple[int, ...], says: str, torch_says: str
) -> None:
    data = torch.randn(8, *shape), torch.arange(8)
    subject = [vit, vs.create_model("vit_mini", pretrained=False)] if exam == "landscape_line" else [vit]
    with pytest.raises(UnsupportedModel) as refused:
        getattr(vs.exams, exam)(*subject, data, **EXAMS[exam])
    said = str(refused.value)
    assert f"x{'x'.join(map(str, shape))} input: {says}" in said
    assert shape[0] != 3 or "it says that it takes 3x32x32 images" in said
    assert "\n" not in said
    assert type(refused.value.__cause__).__name__ == torch_says


def test_the_first_convolution_says_how_many_channels_a_model_takes() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(2))
    model(torch.randn(1, 3, 8, 8))
    with pytest.raises(
        UnsupportedModel, match="the images have 1 channel and it takes 3; give it images of as many"
    ):
        vs.exams.variance(model, torch.randn(4, 1, 8, 8))


class Fails(nn.Module):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error


def test_a_model_that_does_not_say_what_it_takes() -> None:
    images, model = torch.zeros(2, 3, 8, 8), Fails(RuntimeError("sizes differ.\nand a stack"))
    expected = (
        r"^Fails cannot be run on a 2x3x8x8 input: RuntimeError: sizes differ; give it images of the shape"
    )
    with pytest.raises(UnsupportedModel, match=expected), runs_on(model, images):
        model(images)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
        VitscopeError("in words already"),
    ],
)
def test_what_is_not_about_the_images_stays_what_it_is(error: Exception) -> None:
    images, model = torch.zeros(2, 3, 8, 8), Fails(error)
    with pytest.raises(type(error)) as raised, runs_on(model, images):
        model(images)
    assert raised.value is error
