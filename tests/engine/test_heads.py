from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.exams.attention_by_hand import swin, vit
from vitscope.anatomy import Anatomy, AttentionMap, Tap, Unit, anatomy
from vitscope.anatomy.watch.places import Places
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.heads import (
    Geometry,
    HeadMoments,
    attention_matrix,
    every_point_asks,
    geometry,
    visible_keys,
    why_not,
)
from vitscope.results import UnitRow

EMPTY = torch.zeros(0)


class Mean(HeadMoments):
    """Two numbers per head and one beside them."""

    quantities = ("first", "second")

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.beside: list[torch.Tensor] = []

    @staticmethod
    def measure_heads(unit: Unit, seen: AttentionMap, n_images: int) -> torch.Tensor:
        return seen.weights.sum((2, 3))[:, :, None].expand(-1, -1, 3)

    def take(self, more: torch.Tensor) -> None:
        self.beside.append(more)


def subject() -> Subject:
    parts = anatomy(vit(), (3, 32, 32))
    return Subject("m", "d", attending=tuple(u for u in parts if u.attention))


def test_sums_per_layer_and_head() -> None:
    moments, values = Mean(subject()), torch.rand(5, 3, 3, generator=torch.Generator().manual_seed(0))
    for piece in (values[:2], values[2:]):
        moments.update(Batch(EMPTY, EMPTY, torch.arange(len(piece)), attention=((piece,), (2 * piece,))))
    found, common = moments.means(), moments.common()
    assert common["head"].tolist() == [-1, 0, 1, 2] * 2
    numbers = values[:, :, :2].double().numpy()
    np.testing.assert_allclose(found["value"][0], numbers.mean((0, 1)))
    np.testing.assert_allclose(found["value"][1:4], numbers.mean(0))
    np.testing.assert_allclose(found["value"][4:], 2 * found["value"][:4])
    half = 2.776445105 * numbers.std(0, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(found["high"][1:4], numbers.mean(0) + half)
    assert moments.beside[0].shape == (2, 8, 1)
    assert found["n"] == 5


def test_a_unit_that_attends_twice_has_the_heads_of_both() -> None:
    one = torch.ones(2, 2, 3)
    both = torch.cat([one, 3 * one[:, :1]], 1)
    moments = Mean(subject())
    moments.update(Batch(EMPTY, EMPTY, torch.arange(2), attention=((one, 3 * one[:, :1]), (both,))))
    assert moments.means()["value"][:, 0].tolist() == pytest.approx([5 / 3, 1, 1, 3] * 2)


def test_the_matrix_is_what_averages_the_values() -> None:
    softmax = torch.rand(2, 3, 4, 4).softmax(-1)
    mixed = torch.einsum("nhqk,hg->ngqk", softmax, torch.randn(3, 3))
    gated = 0.3 * softmax + 0.7 * torch.eye(4)
    for weights, expected in ((softmax, softmax), (mixed, softmax), (gated, gated)):
        assert torch.equal(attention_matrix(AttentionMap(weights, softmax, EMPTY, EMPTY)), expected)


def test_how_many_keys_a_query_sees() -> None:
    assert [visible_keys(u).tolist() for u in subject().attending] == [[17], [17]]
    assert {int(visible_keys(u).item()) for u in anatomy(swin(), (3, 32, 32)) if u.attention} == {16}


def test_units_without_attention_have_a_reason() -> None:
    parts = anatomy(vit(), (3, 32, 32))
    assert why_not(parts.of_kind("mlp")[0]) == "it does not attend"
    assert why_not(parts.of_kind("msa")[0]) is None


def test_what_mixes_points_without_weights_is_named() -> None:
    rows = [UnitRow("a", "mixer", 0, 0.0), UnitRow("b", "mlp", 0, 0.5), UnitRow("c", "msa", 0, 1.0)]
    known = subject()
    attending = UnitRow(known.attending[0].name, "msa", 0, 0.2)
    skipped = Mean(replace(known, units=(*rows, attending))).skipped
    assert [name for name, _ in skipped] == ["a", "c"]
    assert {reason for _, reason in skipped} == {
        "it mixes points without attention weights that could be captured"
    }


NOTHING = torch.zeros(1)


def seen(places: Places) -> AttentionMap:
    return AttentionMap(NOTHING, NOTHING, NOTHING, NOTHING, places)


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
        NOTHING,
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
