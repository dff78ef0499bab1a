import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.data import ImageData
from vitscope.engine.lesion_passes import LesionPasses, contrasts, group_weights, positions
from vitscope.exams import lesion
from vitscope.results import UnitRow


def test_places_are_thirds_of_a_stage_by_kind(small_vit: nn.Module) -> None:
    place = positions(vs.anatomy(small_vit))
    assert place == {
        "blocks.0.attn": "first",
        "blocks.0.mlp": "first",
        "blocks.1.attn": "last",
        "blocks.1.mlp": "last",
    }
    six = positions(vs.anatomy(vs.create_model("vit_mini")))
    assert [six[f"blocks.{i}.mlp"] for i in range(6)] == ["first"] * 2 + ["middle"] * 2 + ["last"] * 2


def test_weights_give_the_mean_over_a_group() -> None:
    rows = [UnitRow("a", "conv", 0, 0.0), UnitRow("b", "conv", 0, 0.5), UnitRow("c", "mlp", 0, 1.0)]
    weights = group_weights(rows, ("first", "last", "only"))
    assert set(weights) == {("conv", ""), ("conv", "first"), ("conv", "last"), ("mlp", ""), ("mlp", "only")}
    np.testing.assert_array_equal(weights["conv", ""], [0.5, 0.5, 0.0])


def test_a_first_block_counts_even_if_it_cannot_be_removed() -> None:
    place = positions(vs.anatomy(vs.create_model("resnet_mini")))
    assert (place["layer2.0"], place["layer2.1"]) == ("first", "last")
    assert "fc" not in place


def test_only_groups_that_exist_are_compared() -> None:
    there = [("msa", "first"), ("msa", "last"), ("mlp", "last"), ("conv", "only")]
    assert contrasts(there) == [(("msa", "last"), ("mlp", "last"))]


def test_one_image_at_a_time_changes_nothing(
    small_vit: nn.Module, fashion: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lesion(small_vit, fashion, limit=20)
    monkeypatch.setattr("vitscope.engine.lesion_passes.KEEP", 1)
    pieces = lesion(small_vit, fashion, limit=20)
    np.testing.assert_array_equal(whole.lost, pieces.lost)
    np.testing.assert_array_equal(whole.gained, pieces.gained)


class WritesBack(nn.Module):
    """Changes in place, after its units, what it computed before them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.first, self.second = (nn.Conv2d(6, 6, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(6, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        memory = torch.tanh(x)
        x = x + self.first(x)
        x = x + self.second(x)
        memory.mul_(3.0)
        return self.head((x * memory).mean((2, 3)))


def test_a_model_that_writes_into_the_past_is_run_in_whole_passes(fashion: ImageData) -> None:
    torch.manual_seed(0)
    model = WritesBack().eval()
    images = torch.randn(6, 3, 32, 32)
    parts = vs.anatomy(model, (3, 32, 32))
    units = [unit for unit in parts if unit.removable]
    passes = LesionPasses(model, parts, units)
    ((some, _),) = list(passes.pieces(images, torch.zeros(6)))
    found = passes.logits(some)
    assert not passes.cheap
    for unit, logits in zip(units, found[1:], strict=True):
        with vs.Tap(model, parts, [], remove=[unit]), torch.no_grad():
            torch.testing.assert_close(logits, model(images))


def test_an_ordinary_model_is_run_the_cheap_way(small_vit: nn.Module) -> None:
    parts = vs.anatomy(small_vit.eval())
    passes = LesionPasses(small_vit, parts, [unit for unit in parts if unit.removable])
    list(passes.pieces(torch.randn(4, 3, 32, 32), torch.zeros(4)))
    assert passes.cheap
