"""Named inputs of models that take more than images."""

import pytest
import torch
from torch import nn

import vitscope as vs
from vitscope.anatomy.watch.example import example_inputs, example_shapes, images_among
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
