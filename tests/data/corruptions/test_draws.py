import numpy as np
import torch

from vitscope.data.corruptions.filters import draws_for, normals, uniforms, whole_numbers


def test_draws_belong_to_seed_image_and_purpose() -> None:
    first = normals(draws_for(0, [5, 9], 1, 2), 4)
    assert torch.equal(normals(draws_for(0, [9, 5], 1, 2), 4), first.flip(0))
    for other in (
        draws_for(1, [5], 1, 2),
        draws_for(0, [6], 1, 2),
        draws_for(0, [5], 2, 2),
        draws_for(0, [5], 1, 3),
    ):
        assert not torch.equal(normals(other, 4), first[:1])


def test_distributions() -> None:
    draws = draws_for(3, range(4), 0)
    normal = normals(draws, 50_000).double()
    assert abs(float(normal.mean())) < 4 / np.sqrt(200_000)
    assert abs(float(normal.std()) - 1) < 0.01
    uniform = uniforms(draws, 50_000)
    assert float(uniform.min()) >= 0
    assert float(uniform.max()) < 1
    counts = np.bincount(whole_numbers(draws, 6, 10_000).ravel())
    assert len(counts) == 6
    assert np.abs(counts - 40_000 / 6).max() < 5 * np.sqrt(40_000 / 6)


def test_negative_and_large_seeds_are_seeds() -> None:
    found = [float(uniforms(draws_for(seed, [0], 0), 1)) for seed in (-1, 2**70, 0)]
    assert len(set(found)) > 1
