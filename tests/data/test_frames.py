"""Streams of frames, and moving crops of still pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, FrameData, batches
from vitscope.data.frames import MaskFiles, moving_crops, pieces, window_path
from vitscope.engine.cache_key import data_fingerprint


def stream(lengths: tuple[int, ...], masks: np.ndarray | None = None) -> FrameData:
    total = sum(lengths)
    images = np.arange(total, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 1), np.uint8)
    labels = np.arange(total) % 3 if masks is None else None
    return FrameData("made", "test", "abc", labels, lengths, images=images, masks=masks)


def test_sequences_are_consecutive_places() -> None:
    data = stream((3, 1, 4))
    assert [list(sequence) for sequence in data.sequences] == [[0, 1, 2], [3], [4, 5, 6, 7]]
    assert [list(piece) for piece in pieces(data.sequences[2], 3)] == [[4, 5, 6], [7]]
    assert repr(data) == "FrameData('made', 'test': 8 frames in 3 sequences, 3 classes)"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (None, [10, 10, 10]),
        (99, [10, 10, 10]),
        (12, [4, 4, 4]),
        (7, [2, 2, 3]),
        (5, [2, 3]),
        (3, [3]),
        (1, [1]),
    ],
)
def test_a_limit_takes_the_beginnings(limit: int | None, expected: list[int]) -> None:
    data = stream((10, 10, 10))
    used = data.starts(limit)
    assert [len(sequence) for sequence in used] == expected
    assert [sequence[0] for sequence in used] == [0, 10, 20][: len(used)]


def test_short_sequences_leave_their_share_to_others() -> None:
    assert [len(s) for s in stream((2, 20, 20)).starts(20)] == [2, 9, 9]
    with pytest.raises(BadData, match="limit is 0"):
        stream((4,)).starts(0)


def test_exams_of_single_images_take_frames_as_images() -> None:
    config = DataConfig((1, 8, 8), (0.0,), (1.0,), crop_pct=1.0)
    seen = torch.cat([indices for _, _, indices in batches(stream((3, 5)), config=config)])
    assert sorted(seen.tolist()) == list(range(8))


def test_masks_are_cut_and_scaled_as_frames_without_mixing_classes() -> None:
    masks = np.zeros((2, 40, 60), np.uint8)
    masks[:, :, 30:] = 2
    masks[1, :10] = 255
    images = np.zeros((2, 40, 60, 1), np.uint8)
    images[:, :, 30:] = 200
    data = FrameData("made", "test", "abc", None, [2], images=images, masks=masks)
    config = DataConfig((1, 20, 20), (0.0,), (1.0,), crop_pct=1.0)
    found = data.prepared_masks(range(2), config)
    assert found.shape == (2, 20, 20)
    assert found.dtype == torch.int64
    assert found[0].unique().tolist() == [0, 2]
    assert found[1].unique().tolist() == [0, 2, 255]
    ((frames, _, _),) = list(batches(data, config=config))
    assert ((frames[0, 0] > 0.39) == (found[0] == 2)).double().mean() > 0.95
    with pytest.raises(BadData, match="has no masks"):
        stream((2,)).prepared_masks(range(2), config)


def test_frames_with_masks_have_no_labels_to_score_by() -> None:
    data = stream((2, 2), masks=np.zeros((4, 8, 8), np.uint8))
    config = DataConfig((1, 8, 8), (0.0,), (1.0,), crop_pct=1.0)
    assert data.labels.tolist() == [-1] * 4
    assert len(list(batches(data, config=config, batch_size=2))) == 2  # exams without labels take it


def test_masks_in_files_hold_numbers_and_may_be_missing(tmp_path: Path) -> None:
    numbers = np.arange(64, dtype=np.uint8).reshape(8, 8) % 3
    grey, palette, colour = tmp_path / "grey.png", tmp_path / "palette.png", tmp_path / "colour.png"
    Image.fromarray(numbers).save(grey)
    coloured = Image.fromarray(numbers)
    coloured.putpalette([7, 9, 11] * 256)
    coloured.save(palette)
    Image.new("RGB", (8, 8)).save(colour)
    files = MaskFiles([str(grey), str(palette), None, str(colour)])
    for index in (0, 1):
        np.testing.assert_array_equal(files.read(index), numbers)
    assert files.read(2) is None
    with pytest.raises(BadData, match=r"colour\.png has mode RGB"):
        files.read(3)
    images = np.zeros((3, 8, 8, 1), np.uint8)
    data = FrameData("made", "test", "abc", None, [3], images=images, masks=MaskFiles(files.paths[:3]))
    found = data.prepared_masks(range(3), DataConfig((1, 8, 8), (0.0,), (1.0,), crop_pct=1.0))
    np.testing.assert_array_equal(found[:2], np.stack([numbers] * 2))
    assert (found[2] == 255).all()


def test_what_does_not_agree_is_refused_and_what_differs_is_told_apart() -> None:
    with pytest.raises(BadData, match="do not agree"):
        FrameData("made", "test", "abc", np.zeros(4, int), [3], images=np.zeros((4, 8, 8, 1), np.uint8))
    with pytest.raises(BadData, match="no empty sequence"):
        FrameData("made", "test", "abc", np.zeros(4, int), [4, 0], images=np.zeros((4, 8, 8, 1), np.uint8))
    masks = np.zeros((4, 8, 8), np.uint8)
    other = masks.copy()
    other[3, 7, 7] = 1
    kinds = [stream((4,)), stream((2, 2)), stream((4,), masks), stream((4,), other)]
    assert len({data_fingerprint(data) for data in kinds}) == 4


ROWS, COLUMNS = np.mgrid[:60, :90].astype(np.uint8)
CLASSES = ("a", "b")


def test_every_frame_is_the_window_at_its_place_and_the_mask_moves_along() -> None:
    photo = np.stack([ROWS, COLUMNS, np.zeros_like(ROWS)], -1)
    mask = (COLUMNS > 40).astype(np.uint8)
    stream = moving_crops([photo], masks=[mask], classes=CLASSES, side=16, frames=80, speed=2.5)
    assert stream.images is not None
    assert stream.images.shape == (80, 16, 16, 3)
    corners = stream.images[:, 0, 0, :2].astype(int)
    for frame, (top, left) in zip(stream.images, corners, strict=True):
        np.testing.assert_array_equal(frame, photo[top : top + 16, left : left + 16])
    assert isinstance(stream.masks, np.ndarray)
    np.testing.assert_array_equal(stream.masks, stream.images[..., 1] > 40)
    np.testing.assert_array_equal(corners, window_path((60, 90), 16, 80, 2.5))


def test_the_window_moves_at_its_speed_and_turns_back_at_the_edge() -> None:
    path = window_path((60, 90), 16, 500, 2.5, seed=3).astype(float)
    assert path.min() >= 0
    assert (path.max(0) <= [44, 74]).all()
    assert path[:, 0].min() <= 2
    assert path[:, 1].max() >= 72
    steps = np.abs(np.diff(path, axis=0))
    straight = steps[(steps > 0).all(1)]
    assert np.hypot(*np.median(straight, axis=0)) == pytest.approx(2.5, abs=0.8)  # rounded to points
    assert np.hypot(*steps.T).max() <= 2.5 + np.sqrt(2)
    assert (window_path((16, 16), 16, 5, 2.5) == 0).all()
    assert (window_path((60, 90), 16, 9, 0.0) == window_path((60, 90), 16, 1, 0.0)).all()


def test_noise_is_drawn_for_every_frame_anew_and_repeats_with_the_seed() -> None:
    photo = np.full((40, 40), 128, np.uint8)
    options = {"classes": CLASSES, "side": 32, "frames": 20}
    stream = moving_crops([photo, photo], [0, 1], noise=10.0, **options)  # type: ignore[arg-type]
    assert stream.images is not None
    assert stream.images.shape == (40, 32, 32, 1)
    assert stream.images.std() == pytest.approx(10.0, rel=0.02)
    assert (stream.images[0] != stream.images[1]).any()
    again = moving_crops([photo, photo], [0, 1], noise=10.0, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(stream.images, again.images)
    assert [len(sequence) for sequence in stream.sequences] == [20, 20]
    assert stream.labels.tolist() == [0] * 20 + [1] * 20


def test_what_does_not_fit_is_refused() -> None:
    photo = np.zeros((20, 20), np.uint8)
    with pytest.raises(BadData, match="no window of 32"):
        moving_crops([photo], [0], classes=CLASSES)
    with pytest.raises(BadData, match="both or none"):
        moving_crops([photo], classes=CLASSES, side=8)
    with pytest.raises(BadData, match="a label or mask for each"):
        moving_crops([photo], [0, 1], classes=CLASSES, side=8)
