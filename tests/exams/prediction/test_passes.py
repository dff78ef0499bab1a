"""The passes exam against float64 loops over explicit passes, and against the prediction exam."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.scores_by_hand import scores
from vitscope.core.errors import UnsupportedModel, VitscopeError
from vitscope.data import ImageData, batches
from vitscope.exams import EXAMS, passes, prediction
from vitscope.findings.passes import QUANTITIES, PassesResult
from vitscope.results import Result
from vitscope.results.paired import differences
from vitscope.surgery.mc_dropout import sampling


def by_hand(p: np.ndarray, each: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The scores of average probabilities (N, classes), and of those of each pass (T, N, classes)."""
    entropy, data = -(p * np.log(p)).sum(1).mean(), -(each * np.log(each)).sum(2).mean()
    return {**scores(p, labels), "entropy": entropy, "aleatoric": data, "epistemic": entropy - data}


@torch.no_grad()
def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, None], list[float]]:
    images, rows = images.double(), []
    operated = vs.surgery.mc_dropout(deepcopy(model), p=0.3)
    with sampling(operated, seed=0):
        drawn = [operated(images) for _ in range(2)]
    for logits in ([model(images)], drawn):
        each = torch.stack(logits).softmax(2).numpy()
        rows.append(by_hand(each.mean(0), each, labels.numpy()))
    return {(quantity, None): [row[quantity] for row in rows] for quantity in rows[0]}


def assert_row(result: PassesResult, row: int, logits: Sequence[Tensor], labels: Tensor) -> None:
    each = torch.stack(list(logits)).double().softmax(2).numpy()
    for quantity, expected in by_hand(each.mean(0), each, labels.numpy()).items():
        found = result.value[row, QUANTITIES.index(quantity)]
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-7), quantity


@torch.no_grad()
def test_equals_a_loop_over_explicit_passes(small_vit: nn.Module, fashion: ImageData) -> None:
    result = passes(small_vit, fashion, limit=30, batch_size=11, seed=3, passes=(1, 4, 2), p=0.2)
    ((images, labels, _),) = list(batches(fashion, small_vit, limit=30, batch_size=30, seed=3))
    copy = deepcopy(small_vit).eval()
    alone = copy(images)
    vs.surgery.mc_dropout(copy, p=0.2)
    with sampling(copy, seed=3):
        drawn = [copy(images) for _ in range(4)]
    assert (result.source, result.inserted, result.p) == ("MC dropout, p = 0.2", True, 0.2)
    assert (result.n, result.batches, result.passes.tolist()) == (30, 3, [0, 1, 2, 4])
    for row, logits in enumerate(([alone], drawn[:1], drawn[:2], drawn)):
        assert_row(result, row, logits, labels)
    summary = result.summary().set_index(["quantity", "condition"])["value"]
    assert summary["nll", "deterministic"] == result.of("nll")["value"][0]
    assert summary["nll", "4 passes"] == result.of("nll")["value"][3]
    assert len(summary) == 8
    epistemic = result.of("epistemic")["value"].to_numpy()
    assert (epistemic[:2] == 0).all()
    assert (epistemic[2:] > 0).all()
    speed = result.of("throughput")["value"].to_numpy()
    assert speed[0] == 1.0
    assert speed[3] < speed[1]


def test_the_deterministic_row_is_what_prediction_says(fashion: ImageData) -> None:
    model = vs.create_model("resnet_mini", pretrained=True)
    result = passes(model, fashion, limit=40, passes=(2,), seed=1)
    plain = prediction(model, fashion, limit=40, seed=1).table().set_index("quantity")
    for quantity in ("accuracy", "top5", "nll", "brier", "confidence", "ece"):
        found = result.of(quantity).iloc[0]
        expected = plain.loc[quantity]
        assert found["value"] == pytest.approx(expected["value"], rel=1e-5, abs=1e-9), quantity
        assert [found["low"], found["high"]] == pytest.approx(
            [expected["low"], expected["high"]], rel=1e-4
        ), quantity
    table = result.table()
    change = table[table["quantity"] == "nll change"].iloc[0]
    assert change["value"] == pytest.approx(result.of("nll")["value"].diff().iloc[1])
    apart = result.of("nll")
    assert change["high"] - change["low"] < (apart["high"] - apart["low"]).max()  # paired: the images cancel


@torch.no_grad()
def test_members_of_an_ensemble_take_the_place_of_passes(small_vit: nn.Module, fashion: ImageData) -> None:
    members = [deepcopy(small_vit) for _ in range(3)]
    for seed, member in enumerate(members):
        torch.manual_seed(seed)
        nn.init.normal_(member.head.weight)  # type: ignore[union-attr, arg-type]
    result = passes(members, fashion, limit=12, passes=(1, 2, 5))
    ((images, labels, _),) = list(batches(fashion, small_vit, limit=12, batch_size=12))
    said = [member.eval()(images) for member in members]
    assert (result.source, result.inserted) == ("members of an ensemble", False)
    assert result.passes.tolist() == [1, 2, 3]
    for row in range(3):
        assert_row(result, row, said[: row + 1], labels)
    as_one = passes(vs.surgery.deep_ensemble(members), fashion, limit=12)
    np.testing.assert_array_equal(as_one.value[:, :-1], result.value[:, :-1])


def test_an_output_asked_of_an_ensemble_whose_members_have_one_is_refused(fashion: ImageData) -> None:
    whole = vs.surgery.deep_ensemble([vs.create_model("vit_mini", pretrained=False) for _ in range(2)])
    with pytest.raises(UnsupportedModel, match=r"output=3 .*returns one tensor.*leave output"):
        passes(whole, fashion, limit=12, output=3)
    assert passes(whole, fashion, limit=12).passes.tolist() == [1, 2]


class DropsInItsHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.conv = nn.Conv2d(6, 6, 3, padding=1)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.conv(x)
        return self.head(self.drop(x.mean((2, 3))))


def test_a_models_own_draws_are_used_wherever_they_are() -> None:
    data = (torch.randn(16, 3, 16, 16), torch.arange(16) % 10)
    result = passes(DropsInItsHead(), data, passes=(1, 3))
    assert (result.source, result.inserted) == ("the model's own dropout", False)
    assert np.isnan(result.p)
    assert result.of("epistemic")["value"].iloc[-1] > 0


def test_a_model_that_averages_by_itself_is_taken_apart(small_vit: nn.Module, fashion: ImageData) -> None:
    vs.surgery.mc_dropout(small_vit, p=0.3)
    expected = passes(small_vit, fashion, limit=10, passes=(1, 3))
    vs.surgery.ensemble(small_vit, passes=3)
    found = passes(small_vit, fashion, limit=10, passes=(1, 3))
    np.testing.assert_allclose(found.value[:, :-1], expected.value[:, :-1], rtol=1e-6)
    assert found.of("nll")["value"].iloc[2] == pytest.approx(
        prediction(small_vit, fashion, limit=10).nll, rel=1e-5
    )


def test_a_model_without_a_place_for_dropout(tmp_path: Path) -> None:
    plain = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    data = (torch.randn(8, 3, 16, 16), torch.arange(8))
    with pytest.warns(UserWarning, match="no spread over passes"):
        result = passes(plain, data)
    assert (result.passes.tolist(), result.source) == ([0], "")
    assert result.of("epistemic")["value"].tolist() == [0.0]
    assert result.replicates() == {}
    result.save(tmp_path)
    again = Result.load(tmp_path)
    assert isinstance(again, PassesResult)
    assert again.table().equals(result.table())


def test_with_and_without_smoothing(fashion: ImageData) -> None:
    model = vs.create_model("resnet_mini", pretrained=True)
    result = passes(model, fashion, limit=20, passes=(1,), smooth=True)
    assert result.passes.tolist() == [0, 1, 0, 1]
    assert result.smoothed.tolist() == [False, False, True, True]
    changed = vs.surgery.smooth(deepcopy(model))
    assert result.of("nll", smoothed=True)["value"].iloc[0] == pytest.approx(
        prediction(changed, fashion, limit=20).nll, rel=1e-5
    )
    assert not hasattr(model, "vitscope_surgery")


def test_two_models_are_compared_on_the_same_images(small_vit: nn.Module, fashion: ImageData) -> None:
    other = deepcopy(small_vit)
    with torch.no_grad():
        other.head.bias[0] += 1.0  # type: ignore[index, union-attr, operator]
    first, second = (passes(model, fashion, limit=30, passes=(1, 2)) for model in (small_vit, other))
    table = differences(second, first).set_index("quantity")
    assert set(table["condition"]) == {"2 passes"}
    expected = second.of("nll")["value"].iloc[-1] - first.of("nll")["value"].iloc[-1]
    assert table.loc["nll", "value"] == pytest.approx(expected)
    assert table.loc["nll", "low"] < expected < table.loc["nll", "high"]


def test_the_model_is_left_as_it_was(small_vit: nn.Module, fashion: ImageData) -> None:
    before = {name: value.clone() for name, value in small_vit.state_dict().items()}
    random = torch.get_rng_state()
    passes(small_vit.train(), fashion, limit=4, passes=(2,))
    assert small_vit.training
    torch.testing.assert_close(dict(small_vit.state_dict()), before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(module._forward_pre_hooks for module in small_vit.modules())


def test_it_belongs_to_evaluations_and_refuses_what_it_cannot_do(
    small_vit: nn.Module, fashion: ImageData
) -> None:
    assert EXAMS["passes"].evaluation
    with pytest.raises(VitscopeError, match="expected several of: a whole number, 1 or more"):
        passes(small_vit, fashion, limit=4, passes=(0, 1))
    with torch.no_grad():
        small_vit.head.bias.fill_(torch.nan)  # type: ignore[union-attr, operator]
    with pytest.raises(VitscopeError, match="not finite"):
        passes(small_vit, fashion, limit=4)
