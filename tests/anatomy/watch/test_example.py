"""What a model is shown; images that it does not take are refused in words, whatever looks at them."""

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.anatomy.watch.example import example_inputs, example_shapes, images_among, runs_on
from vitscope.core.errors import UnsupportedModel, VitscopeError


@pytest.fixture(scope="module")
def model():
    return vs.create_model("vit_mini").double()


def test_two_of_each_in_the_models_precision(model) -> None:
    words, images = torch.tensor([[4, 5, 6]]), torch.rand(3, 3, 8, 8)
    inputs = example_inputs(model, {"words": words, "images": images})
    assert torch.equal(inputs["words"], torch.tensor([[4, 5, 6], [4, 5, 6]]))
    assert torch.equal(inputs["images"], images[:2].double())
    assert images_among(inputs) is inputs["images"]


def test_shapes_stand_for_inputs(model) -> None:
    shapes = {"words": [3], "images": [3, 8, 8], "mask": [8, 8]}
    inputs = example_inputs(model, shapes)
    assert {name: tuple(t.shape) for name, t in inputs.items()} == {
        "words": (2, 3), "images": (2, 3, 8, 8), "mask": (2, 8, 8),
    }  # fmt: skip
    assert [t.is_floating_point() for t in inputs.values()] == [False, True, False]
    assert example_shapes(model, shapes) == example_shapes(model, inputs) == shapes
    assert example_shapes(model, torch.zeros(1, 3, 8, 8)) == [3, 8, 8]


def test_images_are_needed(model) -> None:
    with pytest.raises(VitscopeError, match="no images among the inputs words"):
        images_among(example_inputs(model, {"words": [3]}))


@pytest.mark.parametrize("path", ["", "0"])
def test_a_model_that_was_compiled_in_place_is_refused_by_its_reason(path: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    model.get_submodule(path).compile(backend="eager")
    with pytest.raises(UnsupportedModel, match="was compiled in place, and compiled code cannot be watched"):
        vs.anatomy(model, (3, 8, 8))


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
