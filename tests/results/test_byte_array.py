import numpy as np
import pytest

from vitscope.core.errors import BadResult
from vitscope.results.codec import ByteArray


def test_every_byte_comes_back() -> None:
    array = np.arange(256, dtype=np.uint8).reshape(2, 4, 32)
    kept = ByteArray.of(array)
    assert kept.shape == (2, 4, 32)
    np.testing.assert_array_equal(kept.array, array)
    assert ByteArray.of(np.zeros((3, 0), np.uint8)).array.shape == (3, 0)


def test_what_is_no_byte_is_refused() -> None:
    with pytest.raises(TypeError, match="not of float64"):
        ByteArray.of(np.zeros(3))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((5,), ByteArray.of(np.zeros(6, np.uint8)).text),  # more than told
        ((7,), ByteArray.of(np.zeros(6, np.uint8)).text),
        ((6,), "AAAA"),
        ((6,), "A"),
    ],
)
def test_damage_is_noticed(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(BadResult, match=r"damaged .*; run the exam again"):
        _ = ByteArray(shape, text).array


@pytest.mark.parametrize("shape", [(-1, 1), (-2, -3), (8, 10**9, 8, 8), (10**30,), (1 << 29,)])
def test_a_shape_that_it_cannot_have_is_damage(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="which it cannot have"):
        ByteArray(shape, ByteArray.of(np.zeros(600_000, np.uint8)).text)
