from dataclasses import replace

import numpy as np
import pytest

from vitscope import plots
from vitscope.core.errors import VitscopeError
from vitscope.drawing.figures import new_panel
from vitscope.findings.maps import LayerMaps, MapsResult
from vitscope.results import UnitRow
from vitscope.results.codec import ByteArray


def attention(point: tuple[int, int], heads: int = 2) -> np.ndarray:
    """Maps of three images, which are 0.5 at one point."""
    found = np.zeros((3, heads, 2, 2), np.float32)
    found[:, :, *point] = 0.5
    return found


def result(heads: int = 2) -> MapsResult:
    last = attention((0, 1), heads)  # top right
    return MapsResult(
        model="m",
        data="d",
        n=3,
        seed=0,
        units=(UnitRow("a.attn", "msa", 0, 0.5), UnitRow("b.attn", "msa", 0, 1.0)),
        skipped=(),
        layers=(LayerMaps.of(attention((1, 0), 1), "class token"), LayerMaps.of(last, "class token")),
        rollout=LayerMaps.of(last[:, :1], "class token"),
        rollout_units=("a.attn", "b.attn"),
        images=ByteArray.of(np.full((3, 3, 8, 8), 255, np.uint8)),
        indices=np.arange(3),
    )


def test_a_cell_per_image_and_head() -> None:
    ax = plots.plot_maps(result(), new_panel())
    assert len(ax.images) == 3 * (1 + 2 + 1)
    assert [t.get_text() for t in ax.texts] == ["image", "head 0", "head 1", "rollout"]
    overlay = np.asarray(ax.images[1].get_array())
    assert overlay[0, -1].sum() > overlay[0, 0].sum()  # brighter where attention is
    assert overlay[0, 0].sum() == overlay[-1, -1].sum()


def test_the_outline_goes_around_what_is_above_the_threshold() -> None:
    ax = plots.plot_maps(result(), new_panel())
    x, y = (np.asarray(part, float) for part in ax.lines[0].get_data())
    cell = ax.images[1].get_extent()
    middle_x, middle_y = (cell[0] + cell[1]) / 2, (cell[2] + cell[3]) / 2
    assert np.nanmin(x) == middle_x
    assert np.nanmax(x) == cell[1]
    assert np.nanmin(y) == middle_y
    assert np.nanmax(y) == cell[3]


def test_a_map_does_not_look_different_beside_stronger_ones() -> None:
    weak, maps = result(), attention((0, 1))
    strong = LayerMaps.of(np.concatenate([maps[:, :1], 100 * maps[:, 1:]], 1), "class token")
    changed = replace(weak, layers=(weak.layers[0], strong))
    a, b = (plots.plot_maps(r, new_panel()) for r in (weak, changed))
    np.testing.assert_allclose(np.asarray(a.images[1].get_array()), np.asarray(b.images[1].get_array()))


def test_another_layer_is_drawn_without_the_rollout() -> None:
    ax = plots.plot_maps(result(), new_panel(), unit="a.attn")
    assert [t.get_text() for t in ax.texts] == ["image", "head 0"]
    overlay = np.asarray(ax.images[1].get_array())
    assert overlay[-1, 0].sum() > overlay[0, -1].sum()
    with pytest.raises(VitscopeError, match=r"no maps of 'c\.attn'; there are: a\.attn, b\.attn"):
        plots.plot_maps(result(), new_panel(), unit="c.attn")


def test_a_model_without_attention_says_so() -> None:
    empty = replace(result(), units=(), layers=(), rollout=None, rollout_units=())
    assert plots.plot_maps(empty, new_panel()).texts
