import numpy as np
import pytest

from vitscope.core.errors import BadData
from vitscope.data import moving_crops
from vitscope.data.streams.moving_crops import window_path

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
