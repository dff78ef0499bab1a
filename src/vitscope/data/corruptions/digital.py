"""Digital: what processing does to a picture.

contrast             (x - mean) c + mean, the mean over each channel of the picture
elastic_transform    a random affine map, then smooth random displacements
pixelate             made smaller by box averages, and large again
jpeg_compression     of low quality
"""

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torchvision.io import decode_jpeg, encode_jpeg

from vitscope.data.corruptions import filters
from vitscope.data.corruptions.filters import Draws, to_bytes, to_unit, uniforms


def contrast(images: Tensor, draws: Draws, left: float) -> Tensor:
    """Every channel comes closer to its mean."""
    pixels = to_unit(images)
    mean = pixels.mean((2, 3), keepdim=True)
    return to_bytes((pixels - mean) * left + mean)


def elastic_transform(images: Tensor, draws: Draws, amplitude: float, width: float, affine: float) -> Tensor:
    """Bend the picture; all three are in pixels.

    Args:
        images: Bytes (N, C, H, W).
        draws: A generator per image.
        amplitude: Displacements are this often a uniform number from -1 to 1,
        width: after a Gaussian blur of this deviation.
        affine: How far each of three points that fix the affine map may move in x and in y.
    """
    pixels = to_unit(images)
    if affine > 0:
        pixels = _affine(pixels, (2 * uniforms(draws, 3, 2) - 1) * affine)
    if amplitude > 0:
        drawn = 2 * uniforms(draws, 2, *images.shape[2:]) - 1
        moved = filters.gaussian_blur(drawn, width, truncate=3.0, border="mirror") * amplitude
        grid = _grid(images) + moved.permute(0, 2, 3, 1)
        size = torch.tensor([images.shape[3], images.shape[2]])
        pixels = _sampled(pixels, (2 * grid + 1) / size - 1, align_corners=False)
    return to_bytes(pixels)


def pixelate(images: Tensor, draws: Draws, left: float) -> Tensor:
    """Fewer and larger pixels."""
    height, width = images.shape[2:]
    few = int(height * left), int(width * left)
    narrow = _averaged(images.numpy().swapaxes(2, 3), few[1]).swapaxes(2, 3)
    small = _averaged(narrow, few[0])
    rows, columns = (
        ((np.arange(large) + 0.5) * kept / large).astype(int)
        for large, kept in zip((height, width), few, strict=True)
    )
    return torch.from_numpy(small[..., columns].take(rows, 2))


def jpeg_compression(images: Tensor, draws: Draws, quality: float) -> Tensor:
    """There and back through JPEG."""
    given, found = images.numpy(), np.empty(images.shape, np.uint8)
    packed = np.empty((*images.shape[2:], images.shape[1]), np.uint8)  # as the encoder wants it
    image = torch.from_numpy(packed).permute(2, 0, 1)
    for before, after in zip(given, found, strict=True):
        _copy_channels(packed.transpose(2, 0, 1), before)
        _copy_channels(after, decode_jpeg(encode_jpeg(image, round(quality))).numpy())
    return torch.from_numpy(found)


def _copy_channels(to: np.ndarray, of: np.ndarray) -> None:
    """One channel after the other: faster than torch's way between these layouts, which goes pixel by pixel."""
    for target, source in zip(to, of, strict=True):
        np.copyto(target, source)


def _averaged(images: np.ndarray, few: int) -> np.ndarray:
    """As many rows of bytes (N, C, H, W) as wanted, each the mean of neighbours; halves are rounded up."""
    images = np.ascontiguousarray(images)  # whole rows are added, which is fast
    means = np.empty((*images.shape[:2], few, images.shape[3]), np.uint8)
    for length, boxes, firsts in _boxes(images.shape[2], few):
        sums = images.take(firsts, 2).astype(np.uint16)
        for further in range(1, length):
            sums += images.take(firsts + further, 2)
        sums += np.uint16(length // 2)
        sums //= np.uint16(length)
        means[:, :, boxes] = sums
    return means


@lru_cache(maxsize=64)
def _boxes(many: int, few: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Which neighbours become one, box by box as the image library has it: by length, the boxes and their firsts."""
    line = Image.fromarray(np.eye(many, dtype=np.float32))
    used = np.asarray(line.resize((few, many), Image.Resampling.BOX)) > 0
    lengths, firsts = used.sum(0), used.argmax(0)
    return [
        (int(length), boxes, firsts[boxes])
        for length in np.unique(lengths)
        for boxes in [np.flatnonzero(lengths == length)]
    ]


def _affine(pixels: Tensor, moves: Tensor) -> Tensor:
    """Move three points around the middle by `moves` (N, 3, 2), and everything else with them."""
    height, width = pixels.shape[2:]
    reach = min(height, width) // 3
    middle = torch.tensor([width // 2, height // 2])
    points = middle + reach * torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    moved = torch.cat([points + moves, torch.ones(len(moves), 3, 1)], 2)
    back = torch.linalg.solve(moved, points.expand(len(moves), 3, 2))  # (N, 3, 2): where a point comes from
    grid = _grid(pixels)
    source = grid @ back[:, None, :2] + back[:, None, 2:]
    return _sampled(pixels, 2 * source / torch.tensor([width - 1, height - 1]) - 1, align_corners=True)


def _grid(pixels: Tensor) -> Tensor:
    """(H, W, 2): x and y of every pixel."""
    height, width = pixels.shape[2:]
    return torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), 2).float()


def _sampled(pixels: Tensor, grid: Tensor, align_corners: bool) -> Tensor:
    """Bilinear; mirrored beyond the border, at the outermost pixels' centres or at their edges."""
    return F.grid_sample(pixels, grid, padding_mode="reflection", align_corners=align_corners)
