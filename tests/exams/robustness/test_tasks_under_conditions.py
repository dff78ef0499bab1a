"""Exams that change pictures, of models that find objects or answer questions: the score of the task is what counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import vitscope as vs
from tests.exams.every_exam import OPTIONS, SmallSegmenter, masked
from tests.exams.task_models import SmallAnswerer, SmallDetector, asked, boxed
from tests.exams.tester import Interrupted, assert_same
from tests.tasks.test_average_precision import published
from vitscope.core.errors import VitscopeError
from vitscope.data import DataConfig
from vitscope.data.preprocessing import preprocess
from vitscope.engine.resuming import PartialResults
from vitscope.exams.robustness.noise import perturbed
from vitscope.exams.robustness.occlusion import centre_mask
from vitscope.findings.noise import BLUR, GAUSSIAN, SHOT, Perturbation
from vitscope.results import Result
from vitscope.results.condition_rows import AP_QUANTITIES
from vitscope.results.numbers import READINGS
from vitscope.tasks.detection import compared

CONFIG = DataConfig((3, 32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0)
EXAMS = ("noise", "blur", "occlusion", "frequency_noise", "corruption")
COUNT = {"objects": 6, "answers": 12}
MODELS: dict[str, Any] = {"objects": SmallDetector, "answers": SmallAnswerer}
DATA: dict[str, Any] = {"objects": boxed, "answers": asked}
both = pytest.mark.parametrize("what", MODELS)


def run(exam: str, what: str, model: Any = None, **more: Any) -> Any:
    options = {"batch_size": 4, **OPTIONS.get(exam, {}), **more}
    data = DATA[what](COUNT[what])
    return getattr(vs.exams, exam)(model or MODELS[what]().eval(), data, **options)


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Any]:
    return {(exam, what): run(exam, what) for exam in EXAMS for what in MODELS}


def pixels_of(what: str) -> Tensor:
    data = DATA[what](COUNT[what])
    return torch.cat([preprocess([data.picture(i)], CONFIG) for i in range(len(data))]) * 0.5 + 0.5


@torch.no_grad()
def by_hand(what: str, pixels: Tensor) -> dict[str, float]:
    """Of pictures with pixels from 0 to 1."""
    data, model, shown = DATA[what](COUNT[what]), MODELS[what]().eval(), (pixels - 0.5) / 0.5
    if what == "answers":
        words = model.vitscope_words([data.question(i) for i in range(len(data))])
        p = model({"pixel_values": shown, **words}).double().sigmoid().numpy()
        t = np.stack([data.target(i) for i in range(len(data))]).astype(np.float64)
        loss = -(t * np.log(p) + (1 - t) * np.log(1 - p)).sum(1).mean()
        return {"accuracy": t[np.arange(len(t)), p.argmax(1)].mean(), "nll": loss}
    images = [compared(one, data.target(i), (32, 32), data.size(i)) for i, one in enumerate(model(shown))]
    return dict(
        zip(AP_QUANTITIES, [*published(images, "bbox")[:2], *published(images, "segm")[:2]], strict=True)
    )


def rows_of(result: Result, condition: str) -> dict[str, float]:
    table = result.table()
    rows = table[table["condition"] == condition]
    return dict(zip(rows["quantity"], rows["value"], strict=True))


CHANGED = {
    ("noise", "shot noise"): Perturbation(SHOT, 255.0),
    ("noise", "Gaussian noise 10"): Perturbation(GAUSSIAN, 10.0),
    ("blur", "Gaussian blur 1"): Perturbation(BLUR, 1.0),
}


@both
@pytest.mark.parametrize(("exam", "condition"), [*CHANGED, ("occlusion", "centre masked")])
def test_scores_are_those_of_changed_pictures(
    exam: str, condition: str, what: str, found: dict[Any, Any]
) -> None:
    pixels = pixels_of(what)
    if exam == "occlusion":
        changed = torch.where(centre_mask(32, 32).bool(), torch.tensor(0.5), pixels)
    else:
        changed = perturbed(CHANGED[exam, condition], pixels, 0, torch.arange(len(pixels)), 0)
    expected, ours = by_hand(what, changed), rows_of(found[exam, what], condition)
    for quantity, value in expected.items():
        assert ours[quantity] == pytest.approx(value, rel=1e-4, abs=1e-6), quantity
    main = next(iter(expected))
    assert ours["drop"] == pytest.approx(by_hand(what, pixels)[main] - expected[main], abs=1e-5)


def test_clean_images_are_those_of_the_exam_of_the_task(found: dict[Any, Any]) -> None:
    whole = {
        "objects": vs.exams.detection(SmallDetector().eval(), boxed(COUNT["objects"])).table(),
        "answers": vs.exams.answers(SmallAnswerer().eval(), asked(COUNT["answers"])).table(),
    }
    for (exam, what), result in found.items():
        table = result.table()
        clean = table[table["condition"] == "clean"].set_index("quantity")
        same = AP_QUANTITIES if what == "objects" else ("accuracy", "nll", "ece")
        theirs = whole[what].set_index("quantity")
        for quantity in same:
            ours = clean.loc[quantity, ["value", "low", "high"]].to_numpy(float)
            expected = theirs.loc[quantity, ["value", "low", "high"]].to_numpy(float)
            np.testing.assert_allclose(ours, expected, rtol=1e-9, err_msg=f"{exam} {what} {quantity}")
        assert (clean["n"] == (6 if what == "objects" else 4)).all()  # pictures


@both
@pytest.mark.parametrize("exam", EXAMS)
def test_it_is_the_first_thing_that_is_said_and_drawn(
    exam: str, what: str, found: dict[Any, Any], tmp_path: Path
) -> None:
    result = found[exam, what]
    said = "Box AP" if what == "objects" else "ccuracy"
    assert said in READINGS[exam](result)
    first = "drop" if exam == "frequency_noise" else "box_ap" if what == "objects" else "accuracy"
    assert result.summary()["quantity"].iloc[0] == first
    assert said in getattr(vs.plots, exam)(result).get_ylabel()
    assert not result.table()["value"].isna().any()
    result.save(tmp_path)
    assert_same(Result.load(tmp_path), result, exact=True)


def test_means_over_draws_are_means_of_precision() -> None:
    result = run("noise", "objects", draws=2)
    rows = rows_of(result, "Gaussian noise 10")
    assert rows["box_ap"] == rows["box_ap_over_draws"] == pytest.approx(result.draw_ap[2].mean(), rel=1e-12)
    assert "accuracy_over_draws" not in rows


def test_what_hangs_on_salient_patches_is_more(found: dict[Any, Any]) -> None:
    for what in MODELS:
        assert set(found["occlusion", what].orders) == {"random", "salient", "non-salient"}
    rows = {
        row.condition: row
        for row in found["occlusion", "objects"].summary().itertuples()
        if row.quantity == "box_ap"
    }
    assert rows["salient patches masked"].value < rows["non-salient patches masked"].value


@both
def test_other_batches_and_an_interruption_change_nothing(
    what: str, found: dict[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(run("blur", what, batch_size=1), found["blur", what])
    monkeypatch.setattr("vitscope.engine.resuming.PartialResults.SECONDS", -1.0)
    exam = "detection" if what == "objects" else "answers"
    once = Interrupted(exam)
    whole = run("blur", what, once.model)
    with pytest.raises(KeyboardInterrupt):
        run("blur", what, Interrupted(exam, once.passes).model, parts=PartialResults(tmp_path, "blur", "key"))
    again = Interrupted(exam)
    assert_same(
        run("blur", what, again.model, parts=PartialResults(tmp_path, "blur", "key")), whole, exact=True
    )
    assert again.passes < once.passes


def test_noise_by_frequency_of_pixels() -> None:
    result = vs.exams.frequency_noise(SmallSegmenter().eval(), masked(4), batch_size=4)
    assert vs.plots.plot_frequency_noise_accuracy(result).get_ylabel() == "mIoU (%)"
    assert rows_of(result, "clean")["miou"] == pytest.approx(
        vs.exams.segmentation(SmallSegmenter().eval(), masked(4)).miou, rel=1e-9
    )


def test_there_is_no_mean_corruption_error_of_objects(found: dict[Any, Any]) -> None:
    reference = found["corruption", "objects"]
    assert reference.of("all", quantity="box_ap") > 0
    with pytest.raises(VitscopeError, match="no accuracy in this result; it has box_ap, box_ap50, mask_ap"):
        reference.of("all")
    with pytest.raises(VitscopeError, match="a mean corruption error is made of accuracies"):
        run("corruption", "objects", reference=reference)


def test_two_models_are_compared_on_the_same_pictures() -> None:
    other = SmallDetector()
    other.scale.data.fill_(9.0)
    told = vs.evaluate({"a": SmallDetector(), "b": other}, boxed(6), ["detection", "blur"], batch_size=6)
    rows = told.differences()
    row = rows[(rows["quantity"] == "box_ap") & (rows["exam"] == "detection")].iloc[0]
    first, second = (told.results[model]["detection"].box_ap for model in "ab")
    assert row["value"] == pytest.approx(second - first, abs=1e-12)
    assert row["low"] <= row["value"] <= row["high"]
    assert set(rows["exam"]) == {"detection", "blur"}
