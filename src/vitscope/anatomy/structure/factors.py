"""Which axes of the factors of a product are queries, keys and channels, and how to bring tensors into one order.

Matrix products have them in the last two axes. In an `einsum` the letters tell: of weights, values and output, the
keys are summed over, the queries are not in the values, the channels are not in the weights. A product element by
element that is then summed over the keys is given letters here.
"""

from dataclasses import dataclass

from torch import Tensor

from vitscope.anatomy.watch.graph import Node
from vitscope.anatomy.watch.places import Layout


@dataclass(frozen=True)
class Axes:
    """The axes of two factors and their product, a letter each, in the order in which they come."""

    left: str  # (..., rows, inner)
    right: str  # (..., inner, columns)
    result: str  # (..., rows, columns)
    batch: str  # what is neither
    row: str
    inner: str
    column: str

    def in_order(self, tensor: Tensor, part: str) -> Tensor:
        """`left`, `right` or `result` with its two own axes last, as a matrix product has them."""
        return arranged(tensor, getattr(self, part), self._wanted(part))

    def as_given(self, result: Tensor) -> Tensor:
        """The result of the matrix product in the order in which the model has it."""
        wanted = self._wanted("result")
        for axis in reversed(range(len(wanted))):
            if wanted[axis] not in self.result:
                result, wanted = result.squeeze(axis), wanted[:axis] + wanted[axis + 1 :]
        return result.permute([wanted.index(letter) for letter in self.result])

    def _wanted(self, part: str) -> str:
        own = {"left": self.row + self.inner, "right": self.inner + self.column}
        return self.batch + own.get(part, self.row + self.column)


def arranged(tensor: Tensor, letters: str, wanted: str) -> Tensor:
    """The tensor with its axes in the wanted order; those it does not have get length 1."""
    tensor = tensor.permute([letters.index(letter) for letter in wanted if letter in letters])
    for axis, letter in enumerate(wanted):
        if letter not in letters:
            tensor = tensor.unsqueeze(axis)
    return tensor


def einsum_axes(node: Node, left: int) -> Axes | None:
    """The axes of an einsum of two tensors, of which `left` (0 or 1) is the left factor; None if it is no product."""
    equation = node.args[0] if node.args else None
    if node.name != "einsum" or not isinstance(equation, str) or "." in equation or "->" not in equation:
        return None
    operands, result = equation.replace(" ", "").split("->")
    terms = operands.split(",")
    if len(terms) != 2 or any(len(set(term)) != len(term) for term in (*terms, result)):
        return None
    first, second = terms[left], terms[1 - left]
    inner = [letter for letter in first if letter in second and letter not in result]
    row = [letter for letter in first if letter in result and letter not in second]
    column = [letter for letter in second if letter in result and letter not in first]
    if len(inner) != 1 or len(column) != 1 or not row or not set(second) <= {*first, *column}:
        return None
    # where the right factor lacks several axes (keys shared by all heads), the last one in the result is the row
    last = max(row, key=result.index)
    batch = "".join(letter for letter in result if letter not in (last, column[0]))
    if set(batch) - set(first):
        return None
    return Axes(first, second, result, batch, last, inner[0], column[0])


def summed_axes(weights: tuple[int, ...], values: tuple[int, ...], key: int, kept: bool) -> Axes:
    """The axes of weights that multiply values element by element and are then summed over: one query, one head more.

    Shapes of both, the weights' 1 where the values have channels; the axis that is summed over; and whether the sum
    leaves an axis of length 1 there.
    """
    letters = "abcdefgh"[: len(values)]
    channel = next(x for x, w, v in zip(letters, weights, values, strict=True) if w == 1 < v)
    batch = "".join(x for x in letters if x not in (channel, letters[key]))
    result = letters.replace(letters[key], "q" if kept else "")
    return Axes(letters.replace(channel, "q"), letters, result, f"{batch}z", "q", letters[key], channel)


def broadcast_axes(weights: tuple[int, ...], values: tuple[int, ...], key: int, kept: bool) -> Axes:
    """The same with several queries: the values' shape is 1 where the weights have them."""
    letters = "abcdefgh"[: len(values)]
    channel = next(x for x, w, v in zip(letters, weights, values, strict=True) if w == 1 < v)
    query = next(x for x, w, v in zip(letters, weights, values, strict=True) if v == 1 < w)
    inner = letters[key]
    batch = "".join(x for x in letters if x not in (channel, query, inner))
    return Axes(
        letters.replace(channel, "z"),  # an axis of length 1 that all three have
        letters.replace(query, "z"),
        letters.replace(inner, "z" if kept else ""),
        f"{batch[:1]}z{batch[1:]}",
        query,
        inner,
        channel,
    )


def layout_in_order(layout: Layout | None, letters: str, wanted: str) -> Layout | None:
    """The layout of a tensor brought into another order."""
    return Layout(arranged(layout.positions, letters, wanted), layout.grid) if layout is not None else None
