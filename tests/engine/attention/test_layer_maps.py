import numpy as np

from vitscope.findings.maps import LayerMaps


def test_a_map_is_known_to_half_a_step_of_its_range() -> None:
    maps = np.random.default_rng(0).gamma(0.3, size=(3, 2, 7, 5)).astype(np.float32)
    kept = LayerMaps.of(maps, "class token")
    spread = np.ptp(maps.reshape(3, 2, -1), axis=2)[..., None, None]
    assert np.abs(kept.attention - maps).max() > 0
    assert (np.abs(kept.attention - maps) <= spread / 510 * (1 + 1e-6)).all()
    np.testing.assert_array_equal(kept.highest, maps.max((2, 3)))
    np.testing.assert_array_equal(kept.attention.argmax(3), maps.argmax(3))
    assert kept.heads == 2


def test_what_is_marked_is_that_of_the_exact_map() -> None:
    maps = np.array([0.0, 0.4999, 0.5, 0.5001, 1.0, 0.25]).reshape(1, 1, 2, 3) * 0.5 + 0.25
    assert LayerMaps.of(maps, "").area[0, 0] == 3 / 6


def test_a_constant_map_marks_nothing() -> None:
    kept = LayerMaps.of(np.full((1, 1, 2, 2), 0.25), "")
    assert kept.area[0, 0] == 0
    assert (kept.attention == 0.25).all()
