"""Who is near whom on a grid."""

import pytest
import torch

from vitscope.anatomy.structure.neighbourhood import kernel_of, neighbourhood, neighbours


@pytest.mark.parametrize(("size", "kernel"), [(7, 1), (7, 3), (7, 4), (8, 6), (8, 7), (5, 5), (5, 8), (1, 3)])
def test_a_line_is_seen_as_a_convolution_with_same_padding_sees_it(size: int, kernel: int) -> None:
    ones = torch.ones(1, 1, kernel, dtype=torch.float64)
    lines = torch.eye(size, dtype=torch.float64)[:, None]  # the j-th has its only 1 at point j
    seen = torch.nn.functional.conv1d(lines, ones, padding="same")[:, 0].T > 0
    if kernel >= size:
        seen = torch.ones(size, size, dtype=torch.bool)
    assert torch.equal(neighbours(size, kernel), seen)


def test_a_short_side_is_seen_whole_and_a_long_one_is_not() -> None:
    seen = neighbourhood((3, 5), (3, 3)).view(3, 5, 3, 5)
    for y in range(3):
        for x in range(5):
            near = [[abs(u - x) <= 1 for u in range(5)] for _ in range(3)]
            assert seen[y, x].tolist() == near


def test_tokens_one_by_one() -> None:
    grid, kernel, prefix = (4, 5), (3, 2), 2
    seen = neighbourhood(grid, kernel, prefix)
    for i in range(22):
        for j in range(22):
            y, x = divmod(i - prefix, 5)
            v, u = divmod(j - prefix, 5)
            near = -1 <= v - y <= 1 and 0 <= u - x <= 1
            assert bool(seen[i, j]) == (i < prefix or j < prefix or near)


@pytest.mark.parametrize("grid", [(6, 6), (5, 8), (9, 4)])
@pytest.mark.parametrize("kernel", [(3, 3), (4, 2), (1, 3), (5, 4), (3, 9)])
@pytest.mark.parametrize("prefix", [0, 2])
def test_the_kernel_is_found_again(grid: tuple[int, int], kernel: tuple[int, int], prefix: int) -> None:
    found = kernel_of(neighbourhood(grid, kernel, prefix), grid, prefix)
    assert found == (min(kernel[0], grid[0]), min(kernel[1], grid[1]))


def test_other_masks_have_no_kernel() -> None:
    grid = (4, 4)
    assert kernel_of(torch.ones(16, 16, dtype=torch.bool), grid, 0) is None
    assert kernel_of(torch.ones(16, 16, dtype=torch.bool).tril(), grid, 0) is None
    assert kernel_of(torch.ones(17, 17, dtype=torch.bool).tril(), grid, 0) is None
    near = neighbourhood(grid, (3, 3), 1)
    near[0, 5] = False  # the class token does not see one of the points
    assert kernel_of(near, grid, 1) is None
