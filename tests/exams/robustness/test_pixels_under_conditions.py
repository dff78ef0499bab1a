"""Exams that change pictures, of models that say what every pixel is: pixels are scored, and keep their classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.every_exam import OPTIONS, SmallSegmenter, masked, small_vit
from tests.exams.prediction.test_segmentation import overlaps
from tests.exams.scores_by_hand import scores as scores_by_hand
from tests.exams.tester import Interrupted, assert_same
from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data.task_data import NO_CLASS
from vitscope.engine.resuming import PartialResults
from vitscope.exams import EXAMS
from vitscope.exams.robustness.noise import perturbed
from vitscope.exams.robustness.occlusion import centre_mask
from vitscope.findings.noise import BLUR, GAUSSIAN, SHOT, Perturbation
from vitscope.results import Result
from vitscope.results.numbers import READINGS

COUNT = 6
WORDS = {"noise": "mIoU is", "blur": "mIoU is", "occlusion": "masked mIoU falls", "corruption": "mIoU is"}


def run(exam: str, model: nn.Module | None = None, **more: Any) -> Any:
    options = {"batch_size": 4, **OPTIONS[exam], **more}
    return getattr(vs.exams, exam)(model or SmallSegmenter().eval(), masked(COUNT), **options)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return {exam: run(exam) for exam in WORDS}


def pictures() -> Tensor:
    data = masked(COUNT)
    shown = np.stack([np.asarray(data.picture(index)) for index in range(COUNT)])
    return torch.from_numpy(shown).movedim(-1, 1).float() / 255


@torch.no_grad()
def by_hand(pixels: Tensor) -> dict[str, float]:
    """Of pictures with pixels from 0 to 1: all pixels of all of them in one heap."""
    scores = SmallSegmenter().eval()((pixels - 0.5) / 0.5)
    large = nn.functional.interpolate(scores, size=(32, 32), mode="bilinear").double()
    data = masked(COUNT)
    masks = np.stack([data.target(index) for index in range(COUNT)])
    p = large.softmax(1).movedim(1, -1).numpy()[masks != NO_CLASS]
    truth = masks[masks != NO_CLASS].astype(np.int64)
    return {**scores_by_hand(p, truth), "miou": float(np.mean(overlaps(p.argmax(1), truth, 3)))}


CHANGED = {
    ("noise", "shot noise"): Perturbation(SHOT, 255.0),
    ("noise", "Gaussian noise 10"): Perturbation(GAUSSIAN, 10.0),
    ("blur", "Gaussian blur 1"): Perturbation(BLUR, 1.0),
}


def rows_of(result: Result, condition: str) -> dict[str, float]:
    table = result.table()
    rows = table[table["condition"] == condition]
    return dict(zip(rows["quantity"], rows["value"], strict=True))


@pytest.mark.parametrize(("exam", "condition"), CHANGED)
def test_scores_are_those_of_changed_pictures_and_the_same_masks(
    exam: str, condition: str, found: dict[str, Any]
) -> None:
    changed = perturbed(CHANGED[exam, condition], pictures(), 0, torch.arange(COUNT), 0)
    expected, ours = by_hand(changed), rows_of(found[exam], condition)
    for quantity in ("miou", "accuracy", "nll", "ece"):
        assert ours[quantity] == pytest.approx(expected[quantity], rel=1e-4), quantity
    clean = by_hand(pictures())
    assert ours["drop"] == pytest.approx(clean["accuracy"] - expected["accuracy"], abs=1e-4)
    assert rows_of(found[exam], "clean")["miou"] == pytest.approx(clean["miou"], rel=1e-4)


def test_of_an_occluded_picture_all_pixels_count(found: dict[str, Any]) -> None:
    hidden = torch.where(centre_mask(32, 32).bool(), torch.tensor(0.5), pictures())
    expected, ours = by_hand(hidden), rows_of(found["occlusion"], "centre masked")
    assert ours["miou"] == pytest.approx(expected["miou"], rel=1e-4)
    assert ours["accuracy"] == pytest.approx(expected["accuracy"], rel=1e-4)
    orders = set(found["occlusion"].orders)
    assert orders == {"random", "salient", "non-salient"}


def test_clean_images_are_those_of_segmentation(found: dict[str, Any]) -> None:
    whole = vs.exams.segmentation(SmallSegmenter().eval(), masked(COUNT)).table().set_index("quantity")
    for exam, result in found.items():
        table = result.table()
        clean = table[table["condition"] == "clean"].set_index("quantity")
        for quantity in ("miou", "accuracy", "nll", "ece"):
            assert clean.loc[quantity, "value"] == pytest.approx(whole.loc[quantity, "value"], rel=1e-9), exam
        for quantity in ("miou", "nll"):
            ends = clean.loc[quantity, ["low", "high"]].to_numpy(float)
            np.testing.assert_allclose(ends, whole.loc[quantity, ["low", "high"]].to_numpy(float), rtol=1e-9)


def test_means_over_draws_and_severities_are_means_of_miou() -> None:
    result = run("noise", draws=3)
    rows = rows_of(result, "Gaussian noise 10")
    assert rows["miou"] == rows["miou_over_draws"] == pytest.approx(result.draw_miou[2].mean(), rel=1e-12)
    worse = run("corruption", types=("brightness",), severities=(1, 5))
    mean = np.mean([worse.of("brightness", severity, "miou") for severity in (1, 5)])
    assert worse.of("all", quantity="miou") == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("exam", WORDS)
def test_it_is_the_first_thing_that_is_said_and_drawn(
    exam: str, found: dict[str, Any], tmp_path: Path
) -> None:
    result = found[exam]
    assert WORDS[exam] in READINGS[exam](result)
    assert result.summary()["quantity"].iloc[0] == "miou"
    assert getattr(vs.plots, exam)(result).get_ylabel().startswith("mIoU (%)")
    result.save(tmp_path)
    assert_same(Result.load(tmp_path), result, exact=True)


@pytest.mark.parametrize("exam", WORDS)
def test_other_batches_and_an_interruption_change_nothing(
    exam: str, found: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(run(exam, batch_size=1), found[exam])
    monkeypatch.setattr("vitscope.engine.resuming.PartialResults.SECONDS", -1.0)
    once = Interrupted("segmentation")
    model = run(exam, once.model)
    stopped = Interrupted("segmentation", once.passes)
    with pytest.raises(KeyboardInterrupt):
        run(exam, stopped.model, parts=PartialResults(tmp_path, exam, "key"))
    again = Interrupted("segmentation")
    assert_same(run(exam, again.model, parts=PartialResults(tmp_path, exam, "key")), model, exact=True)
    assert again.passes < once.passes


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(
        UnsupportedModel, match=r"puts out \(4, 10\), expected \(images, classes, height, width\)"
    ):
        run("noise", small_vit())
    with pytest.raises(
        BadData, match=r"choose exams that need none: .*segmentation, noise, blur, corruption, occl"
    ):
        vs.exams.adversarial(SmallSegmenter(), masked(4))


def test_an_evaluation_takes_what_scores_pixels() -> None:
    options = {exam: OPTIONS[exam] for exam in WORDS}
    models = {"a": SmallSegmenter(), "b": SmallSegmenter()}
    models["b"].conv.weight.data.mul_(2)
    told = vs.evaluate(models, masked(COUNT), batch_size=4, options=options)
    assert list(told.results["a"]) == [
        name for name in EXAMS if name in ("segmentation", "frequency_noise", *WORDS)
    ]
    table = told.differences()
    rows = table[table["quantity"] == "miou"]
    assert set(rows["exam"]) == {"segmentation", *WORDS}  # of noise by frequency, drops are what is compared
    first, second = (told.results[model]["segmentation"].miou for model in "ab")
    row = rows[rows["exam"] == "segmentation"].iloc[0]
    assert row["value"] == pytest.approx(second - first, abs=1e-12)
    assert row["low"] <= row["value"] <= row["high"]
