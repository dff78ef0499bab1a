"""One bit per image of the data, 64 of them in an int64: small enough to keep which images a model gets right.

Image i is bit i mod 64 of word i // 64. Processes that have seen different images add their words up.
"""

import torch
from torch import Tensor

WORD = 64


def with_bits(words: Tensor, indices: Tensor) -> Tensor:
    """`words`, as long as needed, with the bits of the images at `indices` set; they must not be set already."""
    if not len(indices):
        return words
    longer = lengthened(words, int(indices.max()) // WORD + 1)
    return longer.index_add(0, indices // WORD, torch.ones_like(indices) << (indices % WORD))


def lengthened(rows: Tensor, length: int) -> Tensor:
    """`rows` with zeros after them, at least `length` in all."""
    missing = length - len(rows)
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing > 0 else rows
