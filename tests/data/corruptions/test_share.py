from pathlib import Path

import numpy as np
import torch

from vitscope.data.corruptions.share import Share, ShareWriter


def written(
    path: Path | None, images: torch.Tensor, cuts: list[int], places: torch.Tensor | None = None
) -> Share:
    writer = ShareWriter(path, 4)
    places = torch.arange(len(images)) + 10 if places is None else places
    for piece, where in zip(images.split(cuts), places.split(cuts), strict=True):
        writer.add(piece, torch.zeros(len(piece), dtype=torch.long), where)
    return writer.finish()


def test_images_come_back_piece_by_piece(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (10, 3, 6, 5), dtype=torch.uint8)
    share = written(tmp_path / "a", images, [4, 4, 2])
    assert share.batches == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert torch.equal(torch.cat([share.read(rows) for rows in share.batches]), images)
    assert share.indices.tolist() == list(range(10, 20))
    assert share.n_bytes == 900


def test_the_digest_stands_for_images_and_places(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (6, 1, 4, 4), dtype=torch.uint8)
    first = written(tmp_path / "a", images, [6]).digest
    assert written(None, images, [6]).digest == first
    other = images.clone()
    other[3, 0, 2, 2] ^= 1
    assert written(None, other, [6]).digest != first
    assert written(None, images, [6], torch.arange(6)).digest != first
    assert written(None, images.view(6, 1, 2, 8), [6]).digest != first


def test_a_process_without_images(tmp_path: Path) -> None:
    share = ShareWriter(tmp_path / "a", 4).finish()
    assert len(share) == 0
    assert share.batches == []
    assert share.labels.dtype == np.int64
