import numpy as np
import torch

from vitscope.engine.image_draws import NOISE, START, gaussian, uniform


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
