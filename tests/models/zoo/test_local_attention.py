"""Local attention against a mask over everything, and the tiles it is cut into."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vitscope.anatomy.structure.neighbourhood import neighbours
from vitscope.core.errors import VitscopeError
from vitscope.models.zoo.local_attention import Cut, LocalAttention, gather, local_attention

# small grids take the mask, large ones the tiles; odd sizes do not come out even in tiles of 4 or 8
GRIDS = [(8, 8), (9, 11), (32, 32), (37, 21), (19, 40)]
KERNELS = [3, 5, (3, 7)]


def unfolded(query: Tensor, key: Tensor, value: Tensor, grid: tuple[int, int], kernel, prefix: int) -> Tensor:
    """One query at a time: the keys of its patch of the map, those outside of the map left out, and the prefix."""
    rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
    height, width = grid
    points = torch.arange(height * width, dtype=torch.float64).view(1, 1, height, width) + 1
    margins = ((columns - 1) // 2, columns // 2, (rows - 1) // 2, rows // 2)
    patches = F.unfold(F.pad(points, margins), (rows, columns))[0].T.long() - 1  # -1 where there is no map
    out = torch.empty_like(value)
    for i in range(prefix + height * width):
        near = list(range(prefix + height * width))
        if i >= prefix:
            near = list(range(prefix)) + [prefix + j for j in patches[i - prefix].tolist() if j >= 0]
        weights = (query[..., i : i + 1, :] @ key[..., near, :].mT / query.shape[-1] ** 0.5).softmax(-1)
        out[..., i : i + 1, :] = weights @ value[..., near, :]
    return out


def heads(tokens: int, channels: int = 4, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 2, tokens, channels, dtype=torch.float64, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("prefix", [0, 2])
def test_against_unfolding(grid: tuple[int, int], kernel: int | tuple[int, int], prefix: int) -> None:
    q, k, v = heads(prefix + grid[0] * grid[1])
    torch.testing.assert_close(
        local_attention(q, k, v, grid, kernel, prefix), unfolded(q, k, v, grid, kernel, prefix)
    )


@pytest.mark.parametrize("kernel", [2, 4, 6])
def test_even_kernels_reach_further_down_and_right(kernel: int) -> None:
    q, k, v = heads(1 + 20 * 9)
    found = local_attention(q, k, v, (20, 9), kernel, 1)
    torch.testing.assert_close(found, unfolded(q, k, v, (20, 9), kernel, 1))


def test_large_grids_are_tiled_and_small_ones_are_not() -> None:
    assert LocalAttention((8, 8), 3).cuts is None
    assert LocalAttention((14, 14), 5, prefix=1).cuts is None
    assert LocalAttention((32, 32), 7).cuts is not None
    assert LocalAttention((56, 56), 3, prefix=1).cuts is not None


@pytest.mark.parametrize("kernel", [8, 9, (8, 20)])
def test_a_kernel_as_large_as_the_grid_is_global_to_the_bit(kernel: int | tuple[int, int]) -> None:
    q, k, v = (t.float() for t in heads(1 + 8 * 6))
    found = local_attention(q, k, v, (8, 6), kernel, 1)
    assert torch.equal(found, F.scaled_dot_product_attention(q, k, v))


def test_global_along_one_axis_only() -> None:
    q, k, v = heads(4 * 30)
    found = local_attention(q, k, v, (4, 30), (4, 3))
    torch.testing.assert_close(found, unfolded(q, k, v, (4, 30), (7, 3), 0))


@pytest.mark.parametrize("tile", [None, (2, 3), (3, 2)])
def test_gradients(tile: tuple[int, int] | None, monkeypatch) -> None:
    if tile is not None:
        monkeypatch.setattr("vitscope.models.zoo.local_attention.TILES", tile)
        monkeypatch.setattr("vitscope.models.zoo.local_attention.TILED", 0.01)
        monkeypatch.setattr("vitscope.models.zoo.local_attention.COPY", 0.0)
    attention = LocalAttention((4, 5), 3, prefix=1).double()
    assert (attention.cuts is not None) == (tile is not None)
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, 1, 21, 2, dtype=torch.float64, generator=generator) for _ in range(3)]
    for tensor in inputs:
        tensor.requires_grad_()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradcheck(attention, inputs)
        assert torch.autograd.gradgradcheck(attention, inputs)


@pytest.mark.parametrize("grid", [(6, 6), (24, 24)])
def test_a_change_far_away_is_not_noticed(grid: tuple[int, int]) -> None:
    q, k, v = heads(1 + grid[0] * grid[1])
    before = local_attention(q, k, v, grid, 5, 1)
    other_k, other_v = k.clone(), v.clone()
    other_k[..., -1, :] += 3  # the last point, in a corner
    other_v[..., -1, :] -= 2
    changed = (local_attention(q, other_k, other_v, grid, 5, 1) != before).any(-1)[0, 0]
    near = torch.zeros(grid, dtype=torch.bool)
    near[-3:, -3:] = True
    assert torch.equal(changed, torch.cat([torch.ones(1, dtype=torch.bool), near.flatten()]))


@pytest.mark.parametrize("grid", [(4, 5), (24, 24)])
def test_masks_of_the_caller_are_kept(grid: tuple[int, int]) -> None:
    points = grid[0] * grid[1]
    q, k, v = heads(points)
    seen = LocalAttention(grid, 3).seen()
    bias = torch.randn(points, points, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    allowed = (bias > -1) | torch.eye(points, dtype=torch.bool)
    scores = q @ k.mT / 2
    for mask, wanted in (
        ({"attn_mask": bias}, (scores + bias).masked_fill(~seen, float("-inf"))),
        ({"attn_mask": allowed}, scores.masked_fill(~(seen & allowed), float("-inf"))),
        ({"is_causal": True}, scores.masked_fill(~seen.tril(), float("-inf"))),
        ({"scale": 0.1}, (scores * 0.2).masked_fill(~seen, float("-inf"))),
    ):
        torch.testing.assert_close(local_attention(q, k, v, grid, 3, **mask), wanted.softmax(-1) @ v)


def test_dropout_drops_weights_and_keeps_their_mean() -> None:
    torch.manual_seed(0)
    attention = LocalAttention((24, 24), 3, prefix=1)
    q, k, _ = (t.float() for t in heads(577))
    ones = torch.ones(2, 2, 577, 1)
    dropped = attention(q, k, ones, dropout_p=0.5)
    assert abs(float(dropped.mean()) - 1) < 0.02
    assert float(dropped.std()) > 0.1
    assert torch.allclose(attention(q, k, ones), ones, atol=1e-5)


@pytest.mark.parametrize("grid", [(8, 8), (24, 24)])
def test_whoever_watches_sees_one_fused_call(grid: tuple[int, int]) -> None:
    class Names(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    q, k, v = heads(grid[0] * grid[1])
    attention = LocalAttention(grid, 3)
    plain = attention(q, k, v)
    with Names():
        watched = attention(q, k, v)
    assert names.count("scaled_dot_product_attention") == 1
    assert "matmul" not in names
    torch.testing.assert_close(watched, plain)


def test_lower_precision_and_no_state() -> None:
    attention = LocalAttention((24, 24), 3, prefix=1)
    assert not attention.state_dict()
    q, k, v = (t.half() for t in heads(577))
    assert attention(q, k, v).dtype == torch.float16
    wanted = attention(q.float(), k.float(), v.float())
    assert (attention(q, k, v).float() - wanted).abs().max() < 0.01


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(VitscopeError, match="kernel=3"):
        LocalAttention((4, 4), 0)
    with pytest.raises(VitscopeError, match="takes 17"):
        LocalAttention((4, 4), 3, prefix=1)(*heads(16))


@pytest.mark.parametrize("grid", [(6, 6), (20, 20)])
def test_exports_and_compiles(grid: tuple[int, int]) -> None:
    attention = LocalAttention(grid, 3, prefix=1)
    inputs = tuple(t.float() for t in heads(1 + grid[0] * grid[1]))
    wanted = attention(*inputs)
    torch.testing.assert_close(torch.export.export(attention, inputs).module()(*inputs), wanted)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(attention, backend="aot_eager", fullgraph=True)(*inputs), wanted)
    torch._dynamo.reset()


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
