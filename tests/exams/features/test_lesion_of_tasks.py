"""Lesions of models of pixels, objects and questions against models that were operated on, scored by obvious lines."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.every_exam import masked
from tests.exams.task_cases import detector, squares, vilt
from tests.exams.task_models import SmallDetector, boxed
from tests.tasks.test_average_precision import published
from vitscope.core.bootstrap import poisson_weights
from vitscope.core.statistics import score_interval
from vitscope.data import data_config
from vitscope.data.preprocessing import preprocess
from vitscope.data.task_data import NO_CLASS
from vitscope.engine.lesion_passes import LesionPasses
from vitscope.findings.lesion import LesionResult
from vitscope.results import Result
from vitscope.results.numbers import READINGS
from vitscope.tasks.detection import compared

COUNT = 6
SCORES = {"pixels": ("miou", "mIoU"), "objects": ("box_ap", "Box AP"), "answers": ("accuracy", "Accuracy")}
every = pytest.mark.parametrize("what", SCORES)


def segmenter() -> nn.Module:
    torch.manual_seed(0)
    narrow = {"depth": 4, "embed_dim": 12, "num_heads": 2, "channels": 4}
    return vs.create_model("upernet:vit_mini", num_classes=3, img_size=32, **narrow).double().eval()


class Finder(SmallDetector):
    """Looks for objects in what two units, and a stem that changes nothing, make of the colours."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.first, self.second = (
            nn.Conv2d(3, 3, 1),
            nn.Conv2d(3, 3, 3, padding=1),
            nn.Conv2d(3, 3, 1),
        )
        nn.init.dirac_(self.stem.weight)
        nn.init.zeros_(self.stem.bias)
        self.double()

    def forward(self, images: Tensor) -> list[dict[str, Tensor]]:
        stream = self.stem(images)
        stream = stream + self.first(stream)
        return super().forward(stream + self.second(stream))


MODELS: dict[str, Any] = {"pixels": segmenter, "objects": lambda: Finder().eval(), "answers": vilt}
DATA: dict[str, Any] = {
    "pixels": lambda: masked(COUNT),
    "objects": lambda: boxed(COUNT),
    "answers": lambda: squares("vqa", COUNT),
}


def shown_pictures(model: nn.Module, data: Any) -> Tensor:
    return torch.cat([preprocess([data.picture(i)], data_config(model)) for i in range(COUNT)]).double()


@torch.no_grad()
def by_hand(what: str, model: nn.Module, chosen: list[int]) -> float:
    """The score of some images, each as often as it is named."""
    data = DATA[what]()
    images = shown_pictures(model, data)
    if what == "answers":
        words = model.vitscope_words([data.question(i) for i in range(COUNT)])
        outputs = model({"pixel_values": images, **words}).argmax(1)
        return float(np.mean([float(data.target(i)[outputs[i]]) for i in chosen]))
    if what == "objects":
        found = model(images)
        size = tuple(images.shape[2:])
        return float(
            published([compared(found[i], data.target(i), size, data.size(i)) for i in chosen], "bbox")[0]
        )
    truth = [np.asarray(data.target(i)) for i in chosen]
    scores = [
        nn.functional.interpolate(model(images[i : i + 1]), t.shape, mode="bilinear")
        for i, t in zip(chosen, truth, strict=True)
    ]
    p = np.concatenate([s[0].argmax(0).numpy().ravel() for s in scores])
    t = np.concatenate([mask.ravel() for mask in truth])
    known = t != NO_CLASS
    p, t = p[known], t[known]
    ious = [
        ((p == k) & (t == k)).sum() / ((p == k) | (t == k)).sum()
        for k in range(3)
        if ((p == k) | (t == k)).any()
    ]
    return float(np.mean(ious))


@pytest.fixture(scope="module")
def found() -> dict[str, LesionResult]:
    return {what: vs.exams.lesion(MODELS[what](), DATA[what](), batch_size=4) for what in SCORES}


@every
def test_drops_are_those_of_a_model_that_was_operated_on(what: str, found: dict[str, LesionResult]) -> None:
    model, result, whole = MODELS[what](), found[what], list(range(COUNT))
    intact = by_hand(what, model, whole)
    assert result.score == SCORES[what][0]
    assert result.accuracy.value == pytest.approx(intact, abs=1e-9)
    for i in (0, len(result.units) - 1):
        operated = deepcopy(model)
        vs.surgery.lesion(operated, result.units[i].name)
        assert result.value[i] == pytest.approx(intact - by_hand(what, operated, whole), abs=1e-9)


def test_a_mask_rcnn_without_a_unit_finds_what_it_finds_after_the_operation() -> None:
    model = detector()
    parts = vs.anatomy(model, (3, 32, 32))
    units = [unit for unit in parts if unit.removable]
    passes = LesionPasses(model, parts, units, shown=lambda images, places: images)
    images = shown_pictures(model, squares("detection", COUNT, 32))[:3]
    ((some, _, places),) = list(passes.pieces(images, torch.zeros(3), torch.arange(3)))
    outputs = list(passes.outputs(some, places))
    assert len(outputs) == 1 + len(units)
    for unit in (units[0], units[-1]):
        operated = deepcopy(model)
        vs.surgery.lesion(operated, unit.name)
        with torch.no_grad():
            expected = operated(images)
        for ours, theirs in zip(outputs[1 + units.index(unit)], expected, strict=True):
            torch.testing.assert_close(ours, theirs)
            assert len(theirs["boxes"])


@every
def test_something_drops_and_intervals_hold_it(what: str, found: dict[str, LesionResult]) -> None:
    result = found[what]
    assert np.abs(result.value).max() > 1e-3
    assert ((result.low <= result.value) & (result.value <= result.high)).all()
    assert (result.low < result.high).all()
    table = result.table()
    assert list(table["quantity"][table["unit"].notna()].unique()) == ["drop"]
    assert "lost" not in table
    assert table.set_index("quantity").loc["drop mlp", "value"] == pytest.approx(
        np.mean([v for v, unit in zip(result.value, result.units, strict=True) if unit.kind == "mlp"])
    )


def test_pairs_are_replicates_of_the_same_images(found: dict[str, LesionResult]) -> None:
    """The interval of a drop, from images that are drawn again by hand."""
    model, result = MODELS["answers"](), found["answers"]
    operated = deepcopy(model)
    unit = int(np.abs(result.value).argmax())
    vs.surgery.lesion(operated, result.units[unit].name)
    weights = poisson_weights(np.arange(COUNT), 0)
    right = np.array([[by_hand("answers", one, [i]) for i in range(COUNT)] for one in (model, operated)])
    drawn = right @ weights / weights.sum(0)
    ends = []
    for own in drawn:
        error = np.nanstd(own[1:]) * 2.5705818356363146 / 1.959963984540054 * np.sqrt(6 / 5)
        ends.append(score_interval(own[0], error, 6))
    (a, b), ((a_low, a_high), (b_low, b_high)) = drawn[:, 0], ends
    r = 6 / 7 * np.corrcoef(drawn[:, 1:][:, ~np.isnan(drawn[0, 1:])])[0, 1]
    low = a - b - np.sqrt((a - a_low) ** 2 + (b_high - b) ** 2 - 2 * r * (a - a_low) * (b_high - b))
    high = a - b + np.sqrt((a_high - a) ** 2 + (b - b_low) ** 2 - 2 * r * (a_high - a) * (b - b_low))
    assert [result.low[unit], result.high[unit]] == pytest.approx([low, high])


@every
def test_what_is_said_drawn_and_kept_names_the_score(
    what: str, found: dict[str, LesionResult], tmp_path: Any
) -> None:
    result, (name, words) = found[what], SCORES[what]
    assert vs.plots.plot_lesion(result).get_ylabel() == f"{words} drop (points)"
    assert f"of {words[0].lower() if what != 'pixels' else words[0]}{words[1:]}" in READINGS["lesion"](result)
    assert f"intact {name}" in set(result.table()["quantity"])
    result.save(tmp_path)
    again = Result.load(tmp_path)
    assert isinstance(again, LesionResult)
    assert again.score == result.score
    assert again.table().equals(result.table())


def test_scores_that_are_not_finite_without_a_unit_are_said_to_be() -> None:
    class Overflows(nn.Module):
        """Scores at half the size; without its unit it divides by zero."""

        vitscope_task = "segmentation"

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.stem, self.unit = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
            self.pretrained_cfg = {
                "input_size": (3, 32, 32),
                "mean": (0.5,) * 3,
                "std": (0.5,) * 3,
                "crop_pct": 1.0,
            }

        def forward(self, images: Tensor) -> Tensor:
            stream = self.stem(images)
            total = stream + self.unit(stream)
            return total / (total - stream).abs()

    with pytest.warns(UserWarning, match="some outputs are not finite .* all scores count as equal there"):
        result = vs.exams.lesion(Overflows().eval(), masked(4))
    assert np.isfinite(result.value).all()
