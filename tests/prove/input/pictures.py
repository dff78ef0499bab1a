"""Image files: of every mode and format that Pillow writes, and then damaged."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from tests.prove.record import Finding
from tests.prove.watched import watched
from vitscope.data.decode import open_image

# mode, format: what people have on their disks
KINDS = [
    ("RGB", "PNG"), ("L", "PNG"), ("P", "PNG"), ("1", "PNG"), ("RGBA", "PNG"), ("LA", "PNG"), ("I;16", "PNG"),
    ("RGB", "JPEG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("P", "GIF"), ("RGB", "BMP"), ("L", "BMP"), ("RGB", "TIFF"),
    ("I;16", "TIFF"), ("F", "TIFF"), ("CMYK", "TIFF"), ("LAB", "TIFF"), ("1", "TIFF"), ("RGB", "WEBP"),
    ("RGBA", "WEBP"), ("RGB", "PPM"), ("L", "PPM"), ("1", "PPM"), ("I", "TIFF"),
]  # fmt: skip
SUFFIX = {"JPEG": ".jpg", "TIFF": ".tif", "PPM": ".ppm"}
MAGICS = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff\xe0",
    b"GIF89a",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"RIFF",
    b"P6\n",
    b"P5 ",
    b"%PDF",
]


def pixels(mode: str, width: int, height: int, draw: np.random.Generator, constant: bool) -> Image.Image:
    """A picture of this mode and size."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    shape = (height, width, bands)[: 2 + (bands > 1)]
    values = np.full(shape, 7) if constant else draw.integers(0, 256, shape)
    if mode in ("I;16", "I"):
        return Image.fromarray((values * 255).astype(np.uint16 if mode == "I;16" else np.int32))
    if mode == "F":
        return Image.fromarray(values.astype(np.float32))
    if mode == "1":
        return Image.fromarray(values.astype(np.uint8)).convert("1")
    if mode == "P":
        return Image.fromarray(values.astype(np.uint8)).convert("P")
    return Image.frombytes(mode, (width, height), values.astype(np.uint8).tobytes())


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str, dict[str, Any]]:
    """Bytes, the file's suffix, and what it is: `whole` says that it has to be read."""
    mode, kind = draw(st.sampled_from(KINDS))
    side = st.one_of(st.sampled_from([1, 2, 3, 7, 16, 33]), st.integers(1, 90))
    width, height = draw(side), draw(side)
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    picture = pixels(mode, width, height, generator, draw(st.booleans()))
    buffer, more = io.BytesIO(), {}
    if kind in ("GIF", "WEBP", "TIFF", "PNG") and draw(st.booleans()) and mode in ("P", "RGB", "L"):
        frames = [pixels(mode, width, height, generator, False) for _ in range(2)]
        more = {"save_all": True, "append_images": frames}
    picture.save(buffer, kind, **more)
    content, about = (
        buffer.getvalue(),
        {"mode": mode, "format": kind, "size": (width, height), "frames": bool(more)},
    )
    damage = draw(
        st.sampled_from(["none", "cut", "flip", "magic", "insert", "zero", "swap", "suffix", "huge", "empty"])
    )
    content, whole = _damaged(content, damage, kind, draw)
    suffix = SUFFIX.get(kind, f".{kind.lower()}")
    if damage == "suffix":
        suffix = draw(st.sampled_from([".png", ".jpg", ".gif", ".tif", ".webp", ".bmp", ".ppm"]))
    return content, suffix, {**about, "damage": damage, "whole": whole}


def _damaged(content: bytes, damage: str, kind: str, draw: st.DrawFn) -> tuple[bytes, bool]:
    changed = bytearray(content)
    place = st.integers(0, len(changed) - 1)
    if damage == "cut":
        return bytes(changed[: draw(place)]), False
    if damage == "flip":
        for _ in range(draw(st.integers(1, 8))):
            changed[draw(place)] ^= 1 << draw(st.integers(0, 7))
    elif damage == "magic":
        magic = draw(st.sampled_from(MAGICS))
        changed[: len(magic)] = magic
    elif damage == "insert":
        at = draw(place)
        changed[at:at] = draw(st.binary(min_size=1, max_size=40))
    elif damage == "zero":
        at = draw(place)
        changed[at : at + draw(st.integers(1, 64))] = bytes(16)
    elif damage == "swap":
        a, b = sorted((draw(place), draw(place)))
        changed = changed[:a] + changed[b:] + changed[a:b]
    elif damage == "huge" and kind == "PNG":
        sides = draw(
            st.sampled_from([(2**31 - 1, 2**31 - 1), (65535, 65535), (1, 2**31 - 1), (30000, 30000), (0, 0)])
        )
        header = b"IHDR" + struct.pack(">II", *sides) + bytes(changed[24:29])
        changed[12:33] = header + struct.pack(">I", zlib.crc32(header))
    elif damage == "huge" and kind == "BMP":
        changed[18:26] = struct.pack(
            "<ii", *draw(st.sampled_from([(2**31 - 1, 1), (60000, 60000), (-5, 7), (9, -(2**31))]))
        )
    elif damage == "huge" and kind == "GIF":
        changed[6:10] = struct.pack("<HH", 65535, 65535)
    elif damage == "empty":
        return b"", False
    else:
        return bytes(changed), damage in ("none", "suffix")
    return bytes(changed), False


def check_file(case: tuple[bytes, str, dict[str, Any]], folder: Path) -> None:
    """It is decoded to 8 bits of grey or RGB in its own size, or refused with its name; a whole one is decoded."""
    content, suffix, about = case
    path = folder / f"picture{suffix}"
    path.write_bytes(content)
    said = watched(lambda: open_image(path), folder, about)
    if said.refusal is not None:
        if about["whole"]:
            raise Finding(f"{about} is a whole picture and was refused: {said.refusal}")
        if str(path) not in said.refusal:
            raise Finding(f"{about}: the refusal does not name the file: {said.refusal}")
        return
    picture = said.value
    if picture.mode not in ("L", "RGB") or (about["whole"] and picture.size != about["size"]):
        raise Finding(f"{about} became {picture}")
    if "Warning" in said.shown:
        raise Finding(f"{about}: a warning of another library: {said.shown[:500]}")
