import numpy as np
import torch

from vitscope.engine.image_draws import lengthened, with_bits
from vitscope.findings.prediction import images_of


def words() -> torch.Tensor:
    return torch.zeros(0, dtype=torch.int64)


def test_there_and_back_with_the_sign_bit() -> None:
    images = torch.tensor([0, 1, 63, 64, 127, 1000])
    packed = with_bits(words(), images)
    assert len(packed) == 1000 // 64 + 1
    assert images_of(packed.numpy()).tolist() == images.tolist()


def test_batches_in_any_order_and_sums_of_processes() -> None:
    images = torch.randperm(500, generator=torch.Generator().manual_seed(0))[:200]
    one = with_bits(words(), images)
    parts = [words(), words()]
    for number, piece in enumerate(images.split(30)):
        parts[number % 2] = with_bits(parts[number % 2], piece)
    longest = max(map(len, parts))
    merged = sum((lengthened(part, longest) for part in parts), torch.zeros(longest, dtype=torch.int64))
    assert torch.equal(merged, lengthened(one, longest))
    assert images_of(merged.numpy()).tolist() == sorted(images.tolist())


def test_nothing() -> None:
    assert len(with_bits(words(), words())) == 0
    assert images_of(np.zeros(0, np.int64)).tolist() == []


def test_lengthened_keeps_rows() -> None:
    rows = torch.arange(6.0).reshape(2, 3)
    longer = lengthened(rows, 4)
    assert torch.equal(longer[:2], rows)
    assert longer[2:].abs().sum() == 0
    assert lengthened(rows, 1) is rows
