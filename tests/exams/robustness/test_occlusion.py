"""Occlusion of pictures whose pixels a classifier looks at one by one."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.factories import small_transformer
from tests.exams.robustness_models import NUMBERS, LinearClassifier, Numbers, Plain, Rounding, pictures
from tests.exams.scores_by_hand import answers, under_conditions
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData
from vitscope.engine.pixels import PixelModel
from vitscope.exams import occlusion
from vitscope.exams.robustness.occlusion import (
    centre_mask,
    masked,
    patch_numbers,
    patch_saliency,
    random_ranks,
    ranks,
)
from vitscope.findings.occlusion import CENTRE, OcclusionResult
from vitscope.models import create_model
from vitscope.results import Result
from vitscope.results.condition_rows import QUANTITIES

ACCURACY = QUANTITIES.index("accuracy")


class OneBright(Plain):
    """Says 1 if pixel (row, column) is bright; its mean colour is grey."""

    def __init__(self, row: int, column: int, side: int = 8) -> None:
        super().__init__(side)
        self.pretrained_cfg["mean"] = (0.5,) * 3
        self.place = row, column
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        bright = self.scale * (images[:, 0, *self.place] + 0.5 - 0.75)  # the mean is taken away before
        return torch.stack([-bright, bright], 1)


def centre_hidden(pixels: Tensor, colour: Tensor) -> Tensor:
    """The middle half of both sides."""
    side = pixels.shape[2] // 4
    hidden = pixels.clone()
    hidden[:, :, side:-side, side:-side] = colour
    return hidden


def salient_hidden(logits: Callable[[Tensor], Tensor], pixels: Tensor, colour: Tensor, side: int) -> Tensor:
    """Half of the side x side patches, by what hiding them changes to first order."""
    (n, _, height, _), pixels = pixels.shape, pixels.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(logits(pixels).amax(1).sum(), pixels)
    step = height // side
    change = (gradient * (pixels - colour)).abs().sum(1)
    effect = change.view(n, side, step, side, step).sum((2, 4)).flatten(1)
    first = effect.argsort(1, descending=True)[:, : side * side // 2]
    mask = torch.zeros(n, side * side, dtype=torch.bool).scatter(1, first, True).view(n, side, side)
    mask = mask.repeat_interleave(step, 1).repeat_interleave(step, 2)[:, None]
    return torch.where(mask, colour, pixels.detach())


def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str | None], float]:
    pixels, grey = images.double() / 2 + 0.5, torch.full((3, 1, 1), 0.5).double()
    salient = salient_hidden(partial(answers, model), pixels, grey, 8)
    pictures = {"clean": pixels, CENTRE: centre_hidden(pixels, grey), "salient 50 % masked": salient}
    return under_conditions(model, labels, pictures)


def accuracies(result: OcclusionResult) -> dict[str, float]:
    return {
        o.condition: float(v) for o, v in zip(result.occluded, result.scores.value[:, ACCURACY], strict=True)
    }


def test_the_centre_half() -> None:
    mask = centre_mask(224, 224)
    assert mask.sum() == 112 * 112
    assert mask[56:168, 56:168].all()
    assert centre_mask(7, 8).sum() == 3 * 4
    picture = torch.rand(2, 3, 8, 8)
    hidden = masked(picture, centre_mask(8, 8), torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1))
    assert torch.equal(hidden[0, :, 3, 3], torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(hidden[:, :, :2], picture[:, :, :2])


@pytest.mark.parametrize(("place", "seen"), [((3, 3), 0.0), ((0, 7), 1.0)])
def test_what_is_masked_is_not_seen(place: tuple[int, int], seen: float) -> None:
    bright = (torch.full((40, 3, 8, 8), 0.5), torch.ones(40, dtype=torch.long))  # pixels are 1
    result = occlusion(OneBright(*place), bright, side=4, shares=(0.25, 0.75), batch_size=16)
    found = accuracies(result)
    assert found["clean"] == 1
    assert found[CENTRE] == seen
    assert found["salient 25 % masked"] == 0  # the one patch that counts goes first
    assert found["non-salient 75 % masked"] == 1  # and last
    assert 0.45 < found["random 25 % masked"] < 0.98
    assert found["random 75 % masked"] < found["random 25 % masked"]


def test_fill_is_the_mean_colour_or_black() -> None:
    grey = torch.full(
        (10, 3, 4, 4), 0.5
    )  # a linear model of plain pixels has the mean 0: both fills are black
    model = LinearClassifier()
    data = (grey, (model.margin(grey) > 0).long())
    assert accuracies(occlusion(model, data, side=2)) == accuracies(
        occlusion(model, data, side=2, fill="black")
    )
    dark = (
        torch.full((4, 3, 8, 8), -0.5),
        torch.zeros(4, dtype=torch.long),
    )  # of a grey mean: black pictures
    detector = OneBright(3, 3)
    assert accuracies(occlusion(detector, dark, fill="black"))[CENTRE] == 1
    detector.pretrained_cfg["mean"] = (0.8,) * 3
    assert accuracies(occlusion(detector, dark, fill="mean"))[CENTRE] == 1  # 0.8 is shown as 0: not bright


def test_a_model_without_gradient_is_masked_at_random() -> None:
    result = occlusion(Rounding(), (pictures(6), torch.zeros(6, dtype=torch.long)), side=2)
    assert result.orders == ["random"]
    assert list(result.summary()["condition"]) == [CENTRE, "random patches masked"]


def test_tables_and_what_is_left_behind(fashion: ImageData, tmp_path: Path) -> None:
    model = small_transformer().train()
    result = occlusion(model, fashion, limit=16, shares=(0.5, 0.9))
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    table = result.table().set_index(["quantity", "condition"])
    assert table.index.is_unique
    chosen = table.loc["accuracy"].loc[["random 50 % masked", "random 90 % masked"]]
    np.testing.assert_allclose(chosen["share"], [0.5, round(0.9 * 64) / 64])
    mean = table.loc[("accuracy", "random patches masked"), "value"]
    assert mean == pytest.approx(chosen["value"].mean())
    assert result.replicates()["accuracy, random patches masked"][0] == pytest.approx(mean)
    result.save(tmp_path)
    assert Result.load(tmp_path).table().equals(result.table())


def test_bad_options(fashion: ImageData) -> None:
    model = create_model("resnet_mini")
    with pytest.raises(VitscopeError, match="expected mean or black"):
        occlusion(model, fashion, fill="white")  # type: ignore[arg-type]
    with pytest.raises(VitscopeError, match=r"10 in it.*a number from 0 to 1"):
        occlusion(model, fashion, shares=(10,))
    with pytest.raises(
        VitscopeError, match=r"side is 100, and the model sees 32 x 32 pixels.*expected 2 to 32"
    ):
        occlusion(model, fashion, side=100)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("fill", ["mean", "black"])
def test_masks_by_hand_on_images_that_came_as_numbers(
    numbers: Numbers, fill: Literal["mean", "black"]
) -> None:
    result = occlusion(
        numbers.model, numbers.data, fill=fill, side=4, shares=(0.5,), mean=numbers.mean, std=numbers.std
    )
    colour = torch.tensor(numbers.mean if fill == "mean" else 0.0).double().view(-1, 1, 1)
    assert accuracies(result)[CENTRE] == numbers.accuracy(centre_hidden(numbers.pixels, colour))
    salient = salient_hidden(numbers.logits, numbers.pixels, colour, 4)
    assert accuracies(result)["salient 50 % masked"] == numbers.accuracy(salient) < 0.9


def test_patches_are_as_equal_as_pixels_allow() -> None:
    number = patch_numbers(32, 32, 8)
    assert torch.equal(number[4:8, 8:12], torch.full((4, 4), 8 * 1 + 2))
    uneven = np.bincount(patch_numbers(30, 31, 8).flatten().numpy(), minlength=64)
    assert (uneven.min(), uneven.max()) == (9, 16)


def test_saliency_of_a_linear_model_is_weight_times_distance_to_the_fill() -> None:
    model, pixels, fill = LinearClassifier(), pictures(5), torch.tensor([0.1, 0.5, 0.9]).view(1, 3, 1, 1)
    number = patch_numbers(4, 4, 2)
    seen = PixelModel(model, torch.float32)
    gradient = seen.gradient(pixels, lambda logits: logits.amax(1))
    found = patch_saliency(gradient, pixels, fill, number, 4)
    weight = model.weight.detach().view(3, 4, 4) / 2  # of either logit, but for the sign
    for i in range(5):
        for patch in range(4):
            rows, columns = (slice(2 * k, 2 * k + 2) for k in divmod(patch, 2))
            effect = (weight * (pixels[i] - fill[0]))[:, rows, columns].abs().sum()
            assert torch.isclose(found[i, patch], effect)


def test_ranks() -> None:
    assert ranks(torch.tensor([[0.1, 0.9, 0.5, 0.9]])).tolist() == [[3, 0, 2, 1]]
    drawn = random_ranks(0, torch.arange(300), 16)
    assert torch.equal(drawn.sort(1).values, torch.arange(16).expand(300, 16))
    assert (
        abs(float((drawn < 4).float().mean(0).sub(0.25).abs().max())) < 0.1
    )  # every patch as often as others
