import numpy as np
import pytest
import torch

from vitscope.data.corruptions.weather import PANES, frosted_panes


def test_panes_look_like_the_photographs_in_numbers() -> None:
    panes = frosted_panes(1.0)
    assert len(panes) == PANES == 6
    means = np.array([pane.mean((1, 2)).numpy() * 255 for pane in panes])
    expected = [
        (78, 149, 166),
        (201, 205, 214),
        (201, 205, 214),
        (138, 153, 165),
        (112, 123, 135),
        (71, 95, 105),
    ]
    np.testing.assert_allclose(means, expected, atol=4)  # white and black are clipped
    deviations = [float(pane.mean(0).std()) * 255 for pane in panes]
    np.testing.assert_allclose(deviations, [18, 22, 22, 29, 43, 41], rtol=0.1)


def test_smaller_patterns_keep_most_of_their_contrast() -> None:
    """The photographs keep 76 to 86 % of it at a fifth of their size."""
    for large, small in zip(frosted_panes(1.0), frosted_panes(0.2), strict=True):
        assert small.shape == (3, 102, 102)
        assert 0.7 < float(small.std((1, 2)).mean() / large.std((1, 2)).mean()) < 0.97


def test_panes_go_on_at_their_other_side() -> None:
    for pane in frosted_panes(1.0):
        across = pane[:, :, 0] - pane[:, :, -1]
        inside = pane[:, :, 1:] - pane[:, :, :-1]
        assert float(across.square().mean().sqrt()) == pytest.approx(
            float(inside.square().mean().sqrt()), rel=0.35
        )


def test_every_process_makes_the_same_panes() -> None:
    before = [pane.clone() for pane in frosted_panes(0.5)]
    frosted_panes.cache_clear()
    assert all(torch.equal(a, b) for a, b in zip(before, frosted_panes(0.5), strict=True))
