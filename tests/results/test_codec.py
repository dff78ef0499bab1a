import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from vitscope.core.statistics import Estimate
from vitscope.findings.lesion import Group
from vitscope.results.codec import NoValue, decode, encode, stored_as


@dataclass(frozen=True)
class Inner:
    name: str
    shape: tuple[int, int] | None


@dataclass(frozen=True)
class Outer:
    count: int
    ratio: float
    good: bool
    inner: tuple[Inner, ...]
    by_name: dict[str, float]
    array: np.ndarray


WHOLE = Outer(
    count=3,
    ratio=0.1,
    good=True,
    inner=(Inner("a", (1, 2)), Inner("b", None)),
    by_name={"x": float("inf")},
    array=np.array([[1.0, np.nan], [-np.inf, 1 / 3]]),
)


def test_comes_back_without_loss() -> None:
    back = decode(Outer, json.loads(json.dumps(encode(WHOLE), allow_nan=False)))
    np.testing.assert_array_equal(back.array, WHOLE.array)
    assert back.array.dtype == np.float64
    assert replace(back, array=WHOLE.array) == WHOLE


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_arrays_keep_their_type_and_shape(dtype: str) -> None:
    array = np.array([[0, 1, 1]], dtype=dtype)
    back = decode(Outer, json.loads(json.dumps(encode(replace(WHOLE, array=array)))))
    assert back.array.dtype == array.dtype
    np.testing.assert_array_equal(back.array, array)


def test_empty_array() -> None:
    back = decode(Outer, encode(replace(WHOLE, array=np.zeros((0, 4)))))
    assert back.array.shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"count": "3"}, "count"),
        ({"count": True}, "count"),
        ({"ratio": "many"}, "ratio"),
        ({"good": 1}, "good"),
        ({"inner": {"name": "a"}}, "inner"),
        ({"inner": [{"name": "a", "shape": [1, 2, 3]}]}, "shape"),
        ({"inner": [{"name": "a"}]}, "shape"),
        ({"by_name": [1.0]}, "by_name"),
        ({"array": [1.0]}, "array"),
        ({"array": {"dtype": "float64", "shape": [3], "values": [1.0]}}, "array"),
        ({"array": {"dtype": "object", "shape": [1], "values": [1.0]}}, "array"),
        ({"surplus": 1}, "surplus"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        decode(Outer, {**encode(WHOLE), **change})


def test_what_is_missing_is_named() -> None:
    payload = encode(WHOLE)
    del payload["ratio"]
    with pytest.raises(ValueError, match="lacks ratio"):
        decode(Outer, payload)


def test_what_cannot_be_kept_is_refused_on_writing() -> None:
    with pytest.raises(TypeError, match="set"):
        encode({"x": {1, 2}})
    with pytest.raises(TypeError, match="complex128"):
        encode(np.zeros(2, dtype=complex))


@dataclass(frozen=True)
class Judged:
    change: Estimate[np.ndarray]
    share: Estimate[float] = field(metadata=stored_as("nep", "least", "most"))


def test_an_estimate_is_three_fields() -> None:
    judged = Judged(Estimate(np.ones(2), np.zeros(2), np.full(2, np.nan)), Estimate(0.5, 0.25, float("nan")))
    payload = json.loads(json.dumps(encode(judged), allow_nan=False))
    assert list(payload) == ["change", "change_low", "change_high", "nep", "least", "most"]
    back = decode(Judged, payload)
    for one, other in zip((*back.change, *back.share), (*judged.change, *judged.share), strict=True):
        np.testing.assert_array_equal(one, other)
    for name in payload:
        with pytest.raises(ValueError, match=f"lacks {name}$"):
            decode(Judged, {key: value for key, value in payload.items() if key != name})
        with pytest.raises(ValueError, match=f"{name} (should be|is not)"):
            decode(Judged, {**payload, name: "much"})
    with pytest.raises(ValueError, match="no field share"):
        decode(Judged, {**payload, "share": 0.5})


def test_what_is_called_estimate_is_value_low_and_high() -> None:
    group = Group("msa", "last", 2, Estimate(0.5, 0.25, float("nan")))
    payload = encode(group)
    assert list(payload) == ["kind", "position", "units", "value", "low", "high"]
    back = decode(Group, payload)
    assert (back.name, back.value, back.low) == ("msa last", 0.5, 0.25)
    with pytest.raises(ValueError, match="lacks low"):
        decode(Group, {key: value for key, value in payload.items() if key != "low"})


@pytest.mark.parametrize(
    ("field", "value"),
    [("count", 2**63), ("ratio", 10**400), ("inner", [{"name": "\ud800", "shape": None}])],
)
def test_what_no_table_or_file_can_hold_is_no_value(field: str, value: object) -> None:
    with pytest.raises(NoValue, match=r"64 bits|which is no text"):
        decode(Outer, {**encode(WHOLE), field: value})
    assert decode(Outer, {**encode(WHOLE), "count": 2**63 - 1}).count == 2**63 - 1
