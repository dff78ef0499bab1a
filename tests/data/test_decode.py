import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.decode import open_image, to_8bit
from vitscope.data.folder import refuse_empty

RAMP = np.linspace(0, 255, 64).astype(np.uint8).reshape(8, 8)
COLOUR = np.stack([RAMP, RAMP.T, 255 - RAMP], axis=-1)


def save(picture: Image.Image, path: Path) -> Path:
    picture.save(path)
    return path


def test_grey_and_colour_stay_as_they_are(tmp_path: Path) -> None:
    grey = open_image(save(Image.fromarray(RAMP), tmp_path / "a.png"))
    colour = open_image(save(Image.fromarray(COLOUR), tmp_path / "b.png"))
    assert (grey.mode, colour.mode) == ("L", "RGB")
    assert (np.asarray(grey) == RAMP).all()
    assert (np.asarray(colour) == COLOUR).all()


def test_16_bit_grey_is_scaled_not_clipped(tmp_path: Path) -> None:
    deep = RAMP.astype(np.uint16) * 257
    path = save(Image.fromarray(deep), tmp_path / "deep.png")
    assert np.asarray(Image.open(path)).max() == 65535  # the file really is 16-bit
    assert (np.asarray(open_image(path)) == RAMP).all()
    tiff = save(Image.fromarray(deep), tmp_path / "deep.tif")
    assert (np.asarray(open_image(tiff)) == RAMP).all()


def test_dark_16_bit_grey_is_scaled_like_bright() -> None:
    picture = to_8bit(Image.fromarray(np.full((4, 4), 200, np.uint16)))
    assert np.asarray(picture).max() == 1  # 200 of 65535


def test_32_bit_and_float_modes() -> None:
    assert (np.asarray(to_8bit(Image.fromarray(RAMP.astype(np.int32)))) == RAMP).all()
    assert (np.asarray(to_8bit(Image.fromarray(RAMP.astype(np.int32) * 257))) == RAMP).all()
    assert (np.asarray(to_8bit(Image.fromarray(RAMP.astype(np.float32) / 255))) == RAMP).all()


def test_transparency_is_laid_over_white(tmp_path: Path) -> None:
    alpha = np.zeros((8, 8, 1), np.uint8)
    alpha[:4] = 255
    path = save(Image.fromarray(np.concatenate([COLOUR, alpha], axis=-1)), tmp_path / "rgba.png")
    pixels = np.asarray(open_image(path))
    assert (pixels[:4] == COLOUR[:4]).all()
    assert (pixels[4:] == 255).all()


def test_half_transparent_is_the_closed_form() -> None:
    layered = Image.new("RGBA", (2, 2), (100, 0, 200, 51))  # alpha 0.2
    assert to_8bit(layered).getpixel((0, 0)) == (224, 204, 244)


def test_palette_with_and_without_transparency(tmp_path: Path) -> None:
    palette = Image.fromarray(COLOUR).quantize(16)
    opened = open_image(save(palette, tmp_path / "p.png"))
    assert (np.asarray(opened) == np.asarray(palette.convert("RGB"))).all()
    palette.save(tmp_path / "t.png", transparency=palette.getpixel((0, 0)))
    assert open_image(tmp_path / "t.png").getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["1", "LA", "CMYK", "YCbCr", "HSV", "LAB"])
def test_every_other_mode_becomes_grey_or_rgb(mode: str) -> None:
    source = Image.fromarray(COLOUR)
    picture = to_8bit(source.convert("L").convert(mode) if mode in ("1", "LA") else _as(source, mode))
    assert picture.mode in ("L", "RGB")
    assert np.asarray(picture).std() > 10


def _as(picture: Image.Image, mode: str) -> Image.Image:
    if mode == "LAB":
        from PIL import ImageCms

        profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        converted = ImageCms.profileToProfile(picture, *profiles, outputMode="LAB")
        assert converted is not None
        return converted
    return picture.convert(mode)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "bmp", "tif"])
def test_a_truncated_file_is_named(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    path = save(Image.fromarray(noise), tmp_path / f"cut.{suffix}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(BadData, match=rf"cannot decode .*cut\.{suffix} .*replace it or delete it"):
        open_image(path)


@pytest.mark.parametrize("content", [b"", b"not an image at all", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.png"
    path.write_bytes(content)
    with pytest.raises(BadData, match=r"cannot decode .*bad\.png") as caught:
        open_image(path)
    assert "\n" not in str(caught.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(BadData, match=r"cannot decode .*pipe.png \(it is no plain file\); replace it"):
        open_image(tmp_path / "pipe.png")
    with pytest.raises(BadData, match=r"pipe.png is no plain file; replace it"):
        refuse_empty(tmp_path / "pipe.png")


def test_a_vanished_file(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"gone\.png does not exist"):
        open_image(tmp_path / "gone.png")


def test_words_of_python_are_not_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "picture.ppm"
    file.write_bytes(b"P6 2\xb55 8 255 " + bytes(100))  # a width that is no number
    with pytest.raises(BadData, match=r"cannot decode .*picture\.ppm \(its content is damaged\)"):
        open_image(file)


def test_damaged_tags_of_a_tiff_are_not_warned_about(tmp_path: Path) -> None:
    file = tmp_path / "scan.tif"
    Image.fromarray(np.zeros((81, 77), np.uint8)).save(file, tiffinfo={270: "x" * 40})
    content = bytearray(file.read_bytes())
    entry = content.index((270).to_bytes(2, "little") + (2).to_bytes(2, "little"))
    content[entry + 4 : entry + 8] = (10**6).to_bytes(4, "little")  # so many letters: more than the file has
    file.write_bytes(content)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert open_image(file).size == (77, 81)
    assert [str(one.message) for one in seen] == []
