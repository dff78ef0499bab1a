"""Weights: safetensors files whose header, lengths, offsets or bytes are not what they should be, or no numbers."""

import json
import struct
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.prove.record import Finding
from tests.prove.watched import watched
from vitscope.models.checkpoints import read_weights

DTYPES = ["F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "I8", "f32", "X", "", 7, None]
SIZES = {
    "F32": 4,
    "F64": 8,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "U8": 1,
    "BOOL": 1,
    "I8": 1,
    "F8_E4M3": 1,
}
NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 4, 2**31, 2**53, 2**63, 2**64, -1, 1.5, "1", None]), st.integers(0, 40)
)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """One tensor of a header, right but for one thing at most."""
    dtype, shape = draw(st.sampled_from(DTYPES[:10])), draw(st.lists(st.integers(0, 3), max_size=3))
    count = SIZES[dtype]
    for side in shape:
        count *= side
    entry: dict[str, Any] = {"dtype": dtype, "shape": shape, "data_offsets": [0, count]}
    wrong = draw(st.sampled_from(["nothing", "dtype", "shape", "offsets", "lacks", "kind"]))
    if wrong == "dtype":
        entry["dtype"] = draw(st.sampled_from(DTYPES))
    elif wrong == "shape":
        entry["shape"] = draw(st.lists(NUMBERS, max_size=4))
    elif wrong == "offsets":
        entry["data_offsets"] = draw(st.lists(NUMBERS, max_size=3))
    elif wrong == "lacks":
        entry.pop(draw(st.sampled_from(sorted(entry))))
    elif wrong == "kind":
        entry = draw(st.sampled_from([{}, [], None, "x", 3]))
    return entry


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A header of its own length, or of another; bytes after it, as many as it says or not."""
    names = draw(
        st.lists(st.sampled_from(["w", "b", "__metadata__", "", "../x", "w\0", "ü" * 50]), max_size=3)
    )
    header: Any = {name: draw(entries()) for name in names}
    end = 0
    for entry in header.values():  # one after the other, unless one overlaps
        if isinstance(entry, dict) and draw(st.integers(0, 3)):
            offsets = entry.get("data_offsets")
            if isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(v, int) for v in offsets):
                entry["data_offsets"] = [end, end + offsets[1]]
                end = min(end + max(offsets[1], 0), 10_000)
    header = draw(st.sampled_from([header, header, header, [], None, "x"]))
    text = json.dumps(header).encode()
    text = draw(st.sampled_from([text, text, text, text[:-1], b"{" * 3000, b"\xff" + text, text + b" " * 9]))
    lengths = [len(text)] * 4 + [0, len(text) + 1, 2**63, 2**64 - 1, 100_000_001]
    length = struct.pack("<Q", draw(st.sampled_from(lengths)))
    body = bytes(draw(st.sampled_from([end, end, end, end + 1, max(end - 1, 0), 0])))
    content = length + text + body
    return content[: draw(st.integers(0, len(content)))] if draw(st.integers(0, 9)) == 0 else content


def check_file(content: bytes, folder: Path) -> None:
    """Read as tensors, or refused with the file's name."""
    path = folder / "model.safetensors"
    path.write_bytes(content)
    said = watched(lambda: read_weights(path), folder, content[:200])
    if said.refusal is not None and str(path) not in said.refusal:
        raise Finding(f"{content[:100]!r}: the refusal does not name the file: {said.refusal}")
    if said.refusal is None and not isinstance(said.value, dict):
        raise Finding(f"{content[:100]!r} gave {said.value!r}")
