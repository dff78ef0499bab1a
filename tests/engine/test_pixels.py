"""Pixels and inputs, and how it is known what was done to images that came as numbers."""

from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.factories import small_transformer
from tests.exams.robustness_models import HomeMade, LinearClassifier, Rounding
from tests.exams.robustness_models import pictures as drawn_pictures
from vitscope.core.errors import BadData
from vitscope.data import DataConfig, ImageData, batches
from vitscope.engine.pixels import (
    NOISE,
    START,
    NoGradient,
    PixelModel,
    PixelSpace,
    UnknownNormalisation,
    are_pictures,
    gaussian,
    look_plain,
    refuse_unknown,
    uniform,
)
from vitscope.exams import adversarial, blur, corruption, frequency_noise, noise, occlusion, shape_bias
from vitscope.models import create_model

CONFIG = DataConfig(input_size=(3, 4, 5), mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
EXAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "adversarial": (adversarial, {"strengths": (2,), "steps": 1}),
    "noise": (noise, {"strengths": (5,), "draws": 1}),
    "blur": (blur, {"strengths": (1,)}),
    "corruption": (
        corruption,
        {
            "types": ("snow", "shot_noise", "jpeg_compression"),
            "severities": (3,),
            "cache": False,
            "workers": 0,
        },
    ),
    "occlusion": (occlusion, {"side": 2, "shares": (0.5,), "fill": "black"}),
    "frequency_noise": (frequency_noise, {}),
    "shape_bias": (shape_bias, {"cutoffs": (0.3,)}),
}
every_exam = pytest.mark.parametrize("exam", list(EXAMS))
LABELS = torch.arange(12) % 4


def run(exam: str, model: nn.Module, data: Any, **more: Any) -> Any:
    function, options = EXAMS[exam]
    return function(model, data, **options, **more)


def pictures(channels: int = 3) -> Tensor:
    """12 of 16 pixels that have black and white in them."""
    pixels = torch.rand(12, channels, 16, 16, generator=torch.Generator().manual_seed(3))
    pixels[:, :, 0, 0], pixels[:, :, 0, 1] = 0.0, 1.0
    return pixels


def test_both_ways_by_hand_and_back() -> None:
    space = PixelSpace(CONFIG)
    pixels = torch.rand(2, 3, 4, 5, dtype=torch.float64)
    shown = space.to_input(pixels)
    assert torch.allclose(shown[:, 1], (pixels[:, 1] - 0.4) / 0.25)
    assert torch.allclose(space.to_pixels(shown), pixels)


def test_gradients_pass() -> None:
    pixels = torch.rand(1, 3, 4, 5, requires_grad=True)
    PixelSpace(CONFIG).to_input(pixels).sum().backward()
    expected = (1 / torch.tensor([0.2, 0.25, 0.3])).view(1, 3, 1, 1).expand(1, 3, 4, 5)
    assert torch.allclose(pixels.grad, expected)


def test_pictures_ring_a_little() -> None:
    pixels = pictures()
    assert are_pictures(pixels)
    assert are_pictures(pixels * 1.02 - 0.01)  # the rounding of 8 bits, or of half precision
    sharp = (pixels > 0.9).float()
    assert are_pictures(sharp)
    rare = pixels.clone()
    rare[0, 0, 2, 2] = 1.2
    assert are_pictures(rare)
    rare[0, 0, 2, 2] = 1.3
    assert not are_pictures(rare)  # further than any filter rings
    assert not are_pictures(pixels * 1.1)  # too many
    assert not are_pictures(pixels * 2 - 1)


def test_resampling_filters_ring_less_than_is_let_pass() -> None:
    """A white square on black, enlarged by the filter that rings most."""
    corner = torch.zeros(1, 1, 16, 16)
    corner[..., :8, :8] = 1.0
    large = nn.functional.interpolate(
        corner, size=(61, 61), mode="bicubic"
    )  # not clipped, as of float tensors
    assert 1.1 < float(large.max()) < 1.25
    assert float(large.min()) > -0.25


def test_plain_pixels_reach_from_0_to_1() -> None:
    assert look_plain(pictures())
    assert not look_plain(0.5 * pictures())
    assert not look_plain(pictures() * 2 - 1)
    assert not look_plain(0.2 + 0.6 * pictures())


@pytest.mark.parametrize("said_by", ["the model", "its image processor"])
def test_plain_pixels_are_refused_unless_the_user_says_so(said_by: Any) -> None:
    config = DataConfig((3, 16, 16), said_by=said_by)
    refuse_unknown(PixelSpace(config).to_input(pictures()), config)
    with pytest.raises(
        UnknownNormalisation, match=rf"0\.000 to 1\.000.* as {said_by} says, allow -2\.118 to 2\.249"
    ):
        refuse_unknown(pictures(), config)
    refuse_unknown(pictures(), DataConfig((3, 16, 16), said_by="the user"))
    refuse_unknown(pictures(), DataConfig((3, 16, 16), (0.0,), (1.0,), said_by=said_by))


@every_exam
def test_where_nobody_says_every_exam_of_pictures_asks(exam: str) -> None:
    for data in (
        pictures(),
        4 * pictures() - 2,
    ):  # both could be what ImageNet's constants leave, and neither is
        with pytest.raises(
            UnknownNormalisation, match=r"nothing says how .* mean=0, std=1 if .* -2\.118 to 2\.249"
        ):
            run(exam, HomeMade(), (data, LABELS))
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, LABELS), batch_size=6)
        with pytest.raises(UnknownNormalisation, match=r"pass mean= and std="):
            run(exam, HomeMade(), loader)


@every_exam
def test_what_cannot_have_come_from_the_constants_is_refused(exam: str) -> None:
    with pytest.raises(
        UnknownNormalisation, match=r"to 1\.000, and mean 0 and std 1, as the user says, allow 0\.000"
    ):
        run(exam, HomeMade(), (2 * pictures() - 1, LABELS), mean=0, std=1)
    tuned = small_transformer()
    small = nn.functional.interpolate(pictures(), 32)
    with pytest.raises(UnknownNormalisation, match="as the model says, allow -1"):
        run(exam, tuned, (255 * small, LABELS))
    with pytest.raises(UnknownNormalisation, match="as plain pixels are"):
        run(exam, tuned, (small, LABELS))


@every_exam
def test_pictures_that_are_prepared_here_raise_no_question(exam: str, fashion: ImageData) -> None:
    small = nn.functional.interpolate(pictures(), 32)
    bright = (200 + 55 * small).to(torch.uint8)  # light, as plain pixels look to the constants of a model
    for data in (fashion, (bright, LABELS)):
        assert run(exam, small_transformer(), data, limit=12).n == 12


@pytest.mark.parametrize("channels", [1, 4])
@every_exam
def test_models_of_one_and_of_four_channels(exam: str, channels: int) -> None:
    model, pixels = HomeMade(channels), pictures(channels)
    labels = model(pixels).argmax(1)
    found = run(exam, model, (pixels, labels), mean=0, std=1)
    assert found.n == 12
    assert len(found.table())
    moved = run(exam, Shifted(channels), ((pixels - 0.3) / 0.7, labels), mean=0.3, std=0.7)
    assert values(moved) == pytest.approx(values(found), abs=1e-4, nan_ok=True)
    own = timm.create_model(
        "test_vit", img_size=32, in_chans=channels, num_classes=4
    )  # says one mean for all
    shown = 2 * nn.functional.interpolate(pixels, 32) - 1
    assert run(exam, own, (shown, LABELS)).n == 12


@pytest.mark.parametrize("exam", ["blur", "occlusion", "shape_bias"])
def test_grey_and_four_equal_channels_are_the_same_pictures(exam: str) -> None:
    """To a model that looks at the mean of all channels, where nothing is drawn for each channel."""
    model, pixels = HomeMade(1), pictures(1)
    labels = model(pixels).argmax(1)
    grey = run(exam, model, (pixels, labels), mean=0, std=1)
    four = run(exam, OfTheMean(1), (pixels.expand(-1, 4, -1, -1), labels), mean=0, std=1)
    assert values(four) == pytest.approx(values(grey), abs=1e-5, nan_ok=True)


class Shifted(HomeMade):
    """The same model of pictures, which takes them normalised."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(0.7 * images + 0.3)


class OfTheMean(HomeMade):
    """A model of grey pictures that takes any number of channels."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.mean(1, keepdim=True))


def values(result: Any) -> np.ndarray:
    found: np.ndarray = result.table()["value"].to_numpy()
    return found


def test_exams_of_other_things_ask_nothing() -> None:
    data = (pictures(), LABELS)
    found = vs.diagnose(HomeMade(), data, ["prediction"], batch_size=6)
    assert found["prediction"].n == 12
    assert len(vs.exams.hessian(HomeMade(), data, k=1, batch_size=6, batches=1).table())
    vs.exams.variance(small_transformer(), (nn.functional.interpolate(pictures(), 32), LABELS))


def test_declared_constants_are_used_for_named_images_too(fashion: ImageData) -> None:
    """A home-made model of grey images of 16 pixels."""
    model = vs.declare(HomeMade(1), mean=0.2, std=0.4)
    images, _, _ = next(iter(batches(fashion, model, limit=8)))
    assert float(images.min()) == pytest.approx(-0.5)
    assert float(images.max()) == pytest.approx(2.0)


def test_as_many_numbers_as_channels() -> None:
    with pytest.raises(BadData, match=r"3 numbers .* 1 channels; expected one number per channel, or one"):
        adversarial(HomeMade(1), (pictures(1), LABELS), mean=(0.1, 0.2, 0.3), std=1)


def test_an_image_has_the_same_numbers_in_any_company() -> None:
    together = gaussian(NOISE, 3, torch.tensor([7, 2, 900]), (2, 5))
    alone = gaussian(NOISE, 3, torch.tensor([2]), (2, 5))
    assert torch.equal(together[1], alone[0])
    expected = np.random.default_rng([NOISE, 3, 2]).standard_normal((2, 5), np.float32)
    np.testing.assert_array_equal(alone[0].numpy(), expected)


def test_seed_image_and_purpose_all_matter() -> None:
    drawn = [
        uniform(purpose, seed, torch.tensor([index]), (8,))
        for purpose in (NOISE, START)
        for seed in (0, -1)
        for index in (0, 1)
    ]
    assert len({tuple(numbers.flatten().tolist()) for numbers in drawn}) == 8
    assert all(((numbers >= 0) & (numbers < 1)).all() for numbers in drawn)


def test_noise_is_white() -> None:
    drawn = gaussian(NOISE, 0, torch.arange(200), (10, 10)).flatten(1)
    assert abs(float(drawn.mean())) < 4 / np.sqrt(drawn.numel())
    assert abs(float(drawn.std()) - 1) < 0.02
    between = torch.corrcoef(drawn)
    between.fill_diagonal_(0)
    assert float(between.abs().mean()) < 0.12  # of unrelated images of 100 numbers: 0.08


def test_normalisation_is_folded_in() -> None:
    model = create_model("resnet_mini", pretrained=True).eval()
    seen = PixelModel(model, torch.float32)
    images = torch.randn(4, 3, 32, 32)
    assert torch.allclose(seen.logits(seen.pixels(images)), seen.clean(images), atol=1e-4)
    assert torch.equal(seen.clean(images), model(images).detach())
    config = model.pretrained_cfg
    blue = images[:, 2] * config["std"][2] + config["mean"][2]
    assert torch.allclose(seen.pixels(images)[:, 2], blue)


def test_gradient_is_that_of_the_picture_alone() -> None:
    model = LinearClassifier()
    model.pretrained_cfg["std"] = (0.5, 0.5, 0.5)
    gradient = PixelModel(model, torch.float32).gradient(drawn_pictures(5), lambda logits: logits[:, 1])
    expected = (model.weight.detach() / 2 / 0.5).view(1, 3, 4, 4).expand(5, 3, 4, 4)
    assert torch.allclose(gradient, expected)
    assert model.weight.grad is None
    assert not gradient.requires_grad


def test_a_model_that_cuts_the_gradient_off() -> None:
    seen = PixelModel(Rounding(), torch.float32)
    assert not seen.has_gradient(drawn_pictures(1))
    assert PixelModel(LinearClassifier(), torch.float32).has_gradient(drawn_pictures(1))
    with pytest.raises(NoGradient, match="no gradient with respect to the image"):
        seen.gradient(drawn_pictures(1), lambda logits: logits[:, 0])
