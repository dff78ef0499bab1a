"""Tiles of an axis and what they see."""

import pytest
import torch

from vitscope.anatomy.structure.neighbourhood import neighbours
from vitscope.models.zoo.tiles import Cut, gather


@pytest.mark.parametrize("size", [4, 7, 8, 13, 32])
@pytest.mark.parametrize("kernel", [1, 2, 3, 7, 9, 40])
@pytest.mark.parametrize("tile", [1, 3, 4])
def test_every_point_finds_all_it_sees_in_its_window(size: int, kernel: int, tile: int) -> None:
    cut = Cut(size, kernel, tile)
    points = torch.arange(size)
    tiles = gather(points, 0, cut.tiles, cut.tile).view(cut.count, cut.tile)
    windows = gather(points, 0, cut.windows, cut.window).view(cut.count, cut.window)
    seen = cut.seen()
    for t in range(cut.count):
        for i, point in enumerate(tiles[t]):
            assert windows[t][seen[t, i]].tolist() == points[neighbours(size, kernel)[point]].tolist()
    assert cut.join(tiles.flatten(), 0).tolist() == points.tolist()


def test_gather_with_something_before_each_stretch() -> None:
    axis = torch.arange(10)  # five points of two entries
    found = gather(axis, 0, (0, 1, 3), 2, stride=2, before=torch.tensor([-1]))
    assert found.tolist() == [-1, 0, 1, 2, 3, -1, 2, 3, 4, 5, -1, 6, 7, 8, 9]


def test_gathered_twice_means_twice_the_gradient() -> None:
    axis = torch.randn(6, requires_grad=True)
    gather(axis, 0, (0, 1, 3), 3).sum().backward()
    assert axis.grad is not None
    assert axis.grad.tolist() == [1, 2, 2, 2, 1, 1]
