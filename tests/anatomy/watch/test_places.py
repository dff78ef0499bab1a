"""Where queries and keys lie, against maps of indices that are cut up by hand."""

import timm
import torch
import torchvision
from torch.nn import functional

from tests.exams.attention_by_hand import swin, vit, window_points
from vitscope.anatomy import anatomy
from vitscope.anatomy.watch.places import Layout, Places, find_places


def places(model, size) -> list[Places]:
    found = [
        site.places
        for unit in anatomy(model, (3, size, size))
        if unit.attention
        for site in unit.attention.sites
    ]
    assert all(p is not None for p in found)
    return [p for p in found if p is not None]


def test_class_token_is_nowhere_and_points_follow_in_order():
    first = places(vit(), 32)[0]
    assert first.query_grid == first.key_grid == (4, 4)
    assert first.queries.tolist() == first.keys.tolist() == [[-1, *range(16)]]


def test_shifted_windows():
    plain, shifted, last = places(swin(), 32)
    assert torch.equal(plain.queries, window_points(8, 8, 4, 0))
    assert torch.equal(shifted.queries, window_points(8, 8, 4, 2))
    assert torch.equal(shifted.keys, shifted.queries)
    assert last.queries.tolist() == [list(range(16))]


def test_windows_that_reach_over_the_edge_hold_padding():
    model = torchvision.models.SwinTransformer([4, 4], 24, [2], [2], window_size=[3, 3], num_classes=5).eval()
    found = places(model, 32)[0]  # 8 x 8 points in windows of 3 x 3: padded to 9 x 9
    padded = functional.pad(torch.arange(64).view(8, 8), (0, 1, 0, 1), value=-1)
    cells = padded.view(3, 3, 3, 3).permute(0, 2, 1, 3).reshape(9, 9)
    assert torch.equal(found.queries, cells)


def test_pooled_keys_have_a_grid_of_their_own():
    first = places(timm.create_model("pvt_v2_b0"), 64)[0]
    assert (first.query_grid, first.key_grid) == ((16, 16), (2, 2))
    assert first.queries.tolist() == [list(range(256))]
    assert first.keys.tolist() == [list(range(4))]


def test_class_attention_asks_from_nowhere():
    found = places(timm.create_model("cait_xxs24_224", img_size=64, depth=1), 64)[-1]
    assert found.queries.tolist() == [[-1]]
    assert found.keys.tolist() == [[-1, *range(16)]]


def test_heads_that_share_an_axis_with_the_images():
    points = torch.arange(2 * 4, dtype=torch.int32).view(2, 1, 4, 1).expand(2, 3, 4, 5).reshape(6, 4, 5)
    layout = Layout(points, (2, 2))
    found = find_places(layout, layout, 4, 4, heads=3, images=2)
    assert found is not None
    assert found.queries.tolist() == [[0, 1, 2, 3]]


def test_attention_over_channels_has_no_places():
    units = [
        u for u in anatomy(timm.create_model("xcit_nano_12_p16_224", img_size=64), (3, 64, 64)) if u.attention
    ]
    assert units[0].attention is not None
    assert units[0].attention.pattern == "channel"
    assert units[0].attention.sites[0].places is None
