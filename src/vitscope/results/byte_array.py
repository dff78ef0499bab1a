"""Arrays of bytes inside a result: pictures and maps take one or two characters per value, not a line of JSON."""

import base64
import math
import zlib
from dataclasses import dataclass

import numpy as np

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult


@dataclass(frozen=True)
class ByteArray:
    """An array of whole numbers from 0 to 255, as text."""

    shape: tuple[int, ...]
    text: str  # base64 of the compressed bytes

    @classmethod
    def of(cls, array: np.ndarray) -> "ByteArray":
        """The text of an array of type uint8."""
        if array.dtype != np.uint8:
            raise TypeError(f"expected an array of uint8, not of {array.dtype}")
        return cls(array.shape, base64.b64encode(zlib.compress(array.tobytes(), 9)).decode())

    @property
    def array(self) -> np.ndarray:
        """The array, of type uint8."""
        size = math.prod(self.shape)
        try:
            compressed = base64.b64decode(self.text)
            content = zlib.decompressobj().decompress(compressed, size + 1)  # no more than told
            return np.frombuffer(content, np.uint8).reshape(self.shape)
        except (ValueError, zlib.error) as error:
            raise BadResult(f"a picture or map is damaged ({reason(error)}); run the exam again") from error
