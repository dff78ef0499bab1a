"""Dataclasses to JSON and back, without loss and without pickle.

What a field may hold: None, bool, int, float (also nan and inf, which JSON lacks: they are written as
strings), str, numpy arrays, other dataclasses, and tuples and string-keyed dicts of these. Reading goes by
the declared types, so that a file in which something is missing or of another type is recognised as damaged. Pictures
and maps are arrays of bytes, which take one or two characters per value, not a line of JSON. An `Estimate` is
written as three fields: `change`, `change_low` and `change_high`, or what `stored_as` says; one that is called
`estimate` as `value`, `low` and `high`.
"""

import base64
import dataclasses
import math
import types
import typing
import zlib
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from vitscope.core.arguments.files import reason
from vitscope.core.arguments.kinds import shown
from vitscope.core.errors import BadResult
from vitscope.core.statistics import Estimate

D = TypeVar("D")
_MOST_BYTES = 1 << 28  # of one array of bytes
_MOST_OF_ONE = 1032  # bytes that zlib makes of one at most
_ARRAY_TYPES = ("float64", "float32", "int64", "bool")
_LARGEST = 2**63 - 1  # whole number that tables take


class NoValue(ValueError):
    """A field of the right type holds what no version of vitscope has written there."""


def encode(value: Any) -> Any:
    """`value` as what `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for f in dataclasses.fields(value):
            own = getattr(value, f.name)
            parts = zip(_stored(f), own, strict=True) if isinstance(own, Estimate) else [(f.name, own)]
            found |= {name: encode(part) for name, part in parts}
        return found
    if isinstance(value, np.ndarray):
        if str(value.dtype) not in _ARRAY_TYPES:
            raise TypeError(f"arrays of a result are {', '.join(_ARRAY_TYPES)}, not {value.dtype}")
        return {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "values": [encode(v) for v in value.ravel().tolist()],
        }
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, dict):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a result cannot hold a {type(value).__name__}")


def stored_as(value: str, low: str, high: str) -> dict[str, tuple[str, str, str]]:
    """The metadata of a field with an `Estimate` whose parts have these names in files."""
    return {"stored": (value, low, high)}


def _stored(field: "dataclasses.Field[Any]") -> tuple[str, ...]:
    """What value, low and high of an estimate are called in files."""
    if field.name == "estimate":
        return Estimate._fields
    names: tuple[str, ...] = field.metadata.get("stored", ())
    return names or (field.name, f"{field.name}_low", f"{field.name}_high")


def decode(kind: type[D], payload: Any) -> D:
    """The dataclass `kind` from what `encode` made.

    Raises:
        ValueError: Something is missing (that has no default), left over, or of another type; the message names it.
    """
    if not isinstance(payload, dict):
        raise ValueError(f"expected the fields of {kind.__name__}, found {shown(payload)}")
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    estimates = {name for name in fields if typing.get_origin(hints[name]) is Estimate}
    stored = {name: _stored(f) if name in estimates else (name,) for name, f in fields.items()}
    needed = [own for name, own in stored.items() if fields[name].default is dataclasses.MISSING]
    if missing := [name for own in needed for name in own if name not in payload]:
        raise ValueError(f"{kind.__name__} lacks {', '.join(missing)}")
    if surplus := sorted(set(payload).difference(*stored.values())):
        raise ValueError(f"{kind.__name__} has no field {', '.join(surplus)}")
    found: dict[str, Any] = {}
    for name, own in stored.items():
        if name in estimates:
            (number,) = typing.get_args(hints[name])
            found[name] = Estimate(*(_value(number, payload[part], part) for part in own))
        elif name in payload:
            found[name] = _value(hints[name], payload[name], name)
    return kind(**found)


def _value(hint: Any, value: Any, name: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _value(next(a for a in arguments if a is not type(None)), value, name)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value)
    if hint is np.ndarray or origin is np.ndarray:
        return _array(value, name)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{name} should be a list, not {shown(value)}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_value(arguments[0], v, name) for v in value)
        if len(value) != len(arguments):
            raise ValueError(f"{name} should have {len(arguments)} entries, not {len(value)}")
        return tuple(_value(a, v, name) for a, v in zip(arguments, value, strict=True))
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{name} should be a mapping, not {shown(value)}")
        return {_spelt(k, name): _value(arguments[1], v, name) for k, v in value.items()}
    return _scalar(hint, value, name)


def _scalar(hint: Any, value: Any, name: str) -> Any:
    if hint is float:
        if isinstance(value, str) and value in ("nan", "inf", "-inf"):
            return float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(_bounded(value, name))
    elif hint in (int, str, bool) and type(value) is hint:
        return _bounded(value, name) if hint is int else _spelt(value, name) if hint is str else value
    raise ValueError(f"{name} should be {getattr(hint, '__name__', hint)}, not {str(value)[:40]!r}")


def _bounded(number: Any, name: str) -> Any:
    if isinstance(number, int) and abs(number) > _LARGEST:
        raise NoValue(f"{name} is {shown(number)}, more than 64 bits hold")
    return number


def _spelt(text: str, name: str) -> str:
    """A text that files and tables can hold: JSON can spell halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NoValue(f"{name} is {shown(text)}, which is no text") from error
    return text


def _array(value: Any, name: str) -> np.ndarray:
    keys = set(value) if isinstance(value, dict) else set()
    if keys != {"dtype", "shape", "values"} or value["dtype"] not in _ARRAY_TYPES:
        raise ValueError(f"{name} is not an array")
    shape = value["shape"]
    if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"the shape of {name} is {shown(shape)}, no list of sizes")
    try:
        numbers = [float(v) if isinstance(v, str) else v for v in value["values"]]
        return np.array(numbers, dtype=value["dtype"]).reshape(shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the values of {name} do not fit its type and shape") from error


@dataclass(frozen=True)
class ByteArray:
    """An array of whole numbers from 0 to 255, as text."""

    shape: tuple[int, ...]
    text: str  # base64 of the compressed bytes

    def __post_init__(self) -> None:
        if any(side < 0 for side in self.shape) or math.prod(self.shape) > _most_bytes(self.text):
            raise ValueError(
                f"the shape of a picture or map is {shown(list(self.shape))}, which it cannot have"
            )

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


def _most_bytes(text: str) -> int:
    """How many bytes can come out of a text at most."""
    return min(_MOST_BYTES, _MOST_OF_ONE * len(text))
