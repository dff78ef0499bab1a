from dataclasses import replace

import numpy as np

from vitscope import plots
from vitscope.exams.maps import MapsResult
from vitscope.plots.figures import new_panel
from vitscope.results import UnitRow


def result(heads: int = 2) -> MapsResult:
    attention = np.zeros((3, heads, 2, 2), np.float32)
    attention[:, :, 0, 1] = 0.5  # top right
    return MapsResult(
        model="m",
        data="d",
        n=3,
        seed=0,
        units=(UnitRow("a.attn", "msa", 0, 1.0),),
        skipped=(),
        query="class token",
        maps=attention,
        rollout=attention[:, 0],
        rollout_units=("a.attn",),
        images=np.full((3, 3, 8, 8), 255),
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
    weak = result()
    strong = replace(weak, maps=np.concatenate([weak.maps[:, :1], 100 * weak.maps[:, 1:]], 1))
    a, b = (plots.plot_maps(r, new_panel()) for r in (weak, strong))
    np.testing.assert_allclose(np.asarray(a.images[1].get_array()), np.asarray(b.images[1].get_array()))


def test_a_model_without_attention_says_so() -> None:
    empty = replace(result(), units=(), maps=np.zeros((3, 0, 0, 0), np.float32), rollout_units=())
    assert plots.plot_maps(empty, new_panel()).texts
