from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.exams.attention_by_hand import swin, vit
from vitscope.anatomy import Anatomy, AttentionMap, Tap, Unit, anatomy
from vitscope.anatomy.watch.places import Places
from vitscope.engine.heads import Geometry, every_point_asks, geometry

EMPTY = torch.zeros(1)


def seen(places: Places) -> AttentionMap:
    return AttentionMap(EMPTY, EMPTY, EMPTY, EMPTY, places)


def of(parts: Anatomy, position: int) -> tuple[Unit, Geometry]:
    unit = [u for u in parts if u.attention][position]
    assert unit.attention is not None
    places = unit.attention.sites[0].places
    assert places is not None
    return unit, geometry(unit, seen(places))


def test_a_vit_with_a_class_token():
    _, g = of(anatomy(vit(), (3, 32, 32)), 0)
    assert g.whole
    assert g.asking.sum().item() == pytest.approx(1)
    assert g.on_map[0, 0] == 0
    assert g.on_map[0, 1:].tolist() == pytest.approx([1 / 16] * 16)
    y, x = np.divmod(np.arange(16), 4)
    np.testing.assert_allclose(g.rows[0, 1:, 1:], np.abs(y[:, None] - y), atol=1e-5)
    np.testing.assert_allclose(g.columns[0, 1:, 1:], np.abs(x[:, None] - x), atol=1e-5)
    assert g.rows[0, 0].sum() == g.rows[0, :, 0].sum() == 0  # the class token is nowhere
    assert torch.equal(g.own[0, 1:, 1:], torch.eye(16))
    assert g.off_map[0].tolist() == [1.0] + [0.0] * 16


def test_windows_across_the_edge_are_as_far_apart_as_on_the_map():
    _, g = of(anatomy(swin(), (3, 32, 32)), 1)
    assert g.rows.max() == pytest.approx(7)  # rows 0 and 7 share a shifted window
    assert g.rows[0].max() == pytest.approx(3)


def test_pooled_keys_lie_at_the_centre_of_what_they_pool():
    unit, _ = of(anatomy(vit(), (3, 32, 32)), 0)
    points = torch.arange(16)[None]
    g = geometry(unit, seen(Places(points, (4, 4), torch.arange(4)[None], (2, 2))))
    assert g.rows[0, 0].tolist() == pytest.approx([0.5, 0.5, 2.5, 2.5])
    assert g.columns[0, 0].tolist() == pytest.approx([0.5, 2.5, 0.5, 2.5])
    assert g.own[0].sum(1).tolist() == [1.0] * 16
    assert g.own[0, 5].tolist() == [1, 0, 0, 0]
    assert g.own[0, 6].tolist() == [0, 1, 0, 0]


def test_padding_does_not_ask():
    unit, _ = of(anatomy(vit(), (3, 32, 32)), 0)
    windows = torch.tensor([[0, 1], [2, -1], [-1, -1]])
    g = geometry(unit, seen(Places(windows, (1, 3), windows, (1, 3))))
    assert not g.whole
    np.testing.assert_allclose(g.asking, [[1 / 3, 1 / 3], [1 / 3, 0], [0, 0]])


def test_equal_places_are_worked_out_once():
    model, parts = vit(), anatomy(vit(), (3, 32, 32))
    assert of(parts, 0)[1] is of(parts, 1)[1]
    with Tap(model, anatomy(model, (3, 32, 32)), attention=True) as tap:
        model(torch.zeros(1, 3, 32, 32))
    assert next(iter(tap.attention.values()))[0].places is not None


def test_a_context_is_what_every_point_of_its_window_hears():
    unit, _ = of(anatomy(vit(), (3, 32, 32)), 0)
    attention = replace(unit.attention, pattern="context")
    points = torch.tensor([[0, 2], [1, 3]])
    weights = torch.rand(6, 1, 1, 2).softmax(-1)  # three images of two windows
    one = AttentionMap(
        weights,
        weights,
        EMPTY,
        torch.rand(6, 1, 1, 5),
        Places(-torch.ones_like(points[:, :1]), (2, 2), points, (2, 2)),
    )
    every = every_point_asks(replace(unit, attention=attention, prefix_tokens=0), one)
    assert torch.equal(every.weights, weights.repeat(1, 1, 2, 1))
    assert torch.equal(every.places.queries, points)
    assert geometry(replace(unit, attention=attention, prefix_tokens=0), every).rows[0].tolist() == [
        [0, 1],
        [1, 0],
    ]
    assert every_point_asks(unit, one) is one
