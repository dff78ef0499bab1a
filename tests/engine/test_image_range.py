"""Images that came as numbers which no picture becomes are told of, and shown as they are."""

import warnings

import pytest
import torch

import vitscope as vs
from vitscope.data import ImageData, load_data, preprocess

SAID = r"numbers from 0\.000 to 255\.000, and mean .* std .* allow .*; pass 8-bit images"


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return vs.create_model("vit_mini", pretrained=True)


@pytest.fixture(scope="module")
def pair(model: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    data: ImageData = load_data("fashion")
    assert data.images is not None
    prepared = preprocess(data.images[:16], vs.data.data_config(model))
    return prepared, torch.from_numpy(data.labels[:16])


def as_8_bit(prepared: torch.Tensor) -> torch.Tensor:
    return (prepared - prepared.amin()) / (prepared.amax() - prepared.amin()) * 255


@pytest.mark.parametrize("exams", [["prediction", "variance"], ["covariance"], ["hessian"]], ids=str)
def test_pixels_from_0_to_255_bring_a_warning(model, pair, exams: list[str]) -> None:
    options = {"hessian": {"batches": 1, "k": 1, "max_products": 6}} if exams == ["hessian"] else None
    with pytest.warns(UserWarning, match=SAID) as told:
        vs.diagnose(model, (as_8_bit(pair[0]), pair[1]), exams, batch_size=8, options=options)
    assert sum("numbers from" in str(one.message) for one in told) == 1


def test_others_bring_none(model, pair) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vs.diagnose(model, pair, ["prediction"])
        vs.diagnose(model, (5 * torch.randn_like(pair[0]), pair[1]), ["prediction"])
        vs.diagnose(model, ((as_8_bit(pair[0])), pair[1]), ["prediction"], mean=0, std=1 / 255)
