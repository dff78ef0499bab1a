import numpy as np
import torch

from tests.exams.robustness_models import LinearClassifier, pictures
from vitscope.engine.attention.saliency import patch_numbers, patch_saliency, random_ranks, ranks
from vitscope.engine.robustness.pixels import PixelModel


def test_patches_are_as_equal_as_pixels_allow() -> None:
    number = patch_numbers(32, 32, 8)
    assert torch.equal(number[4:8, 8:12], torch.full((4, 4), 8 * 1 + 2))
    uneven = np.bincount(patch_numbers(30, 31, 8).flatten().numpy(), minlength=64)
    assert (uneven.min(), uneven.max()) == (9, 16)


def test_saliency_of_a_linear_model_is_weight_times_distance_to_the_fill() -> None:
    model, pixels, fill = LinearClassifier(), pictures(5), torch.tensor([0.1, 0.5, 0.9]).view(1, 3, 1, 1)
    number = patch_numbers(4, 4, 2)
    seen = PixelModel(model, torch.float32)
    found = patch_saliency(seen, pixels, lambda logits: logits.amax(1), fill, number, 4)
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
