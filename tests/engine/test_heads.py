from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.exams.attention_by_hand import swin, vit
from vitscope.anatomy import AttentionMap, Unit, anatomy
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.heads import HeadMoments, attention_matrix, visible_keys, why_not
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
    assert [visible_keys(u) for u in subject().attending] == [17, 17]
    assert {visible_keys(u) for u in anatomy(swin(), (3, 32, 32)) if u.attention} == {16}


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
