"""Objects that are found: against pycocotools, obvious lines, and what a training measures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.every_exam import images, small_vit
from tests.exams.task_models import CLASSES, SmallDetector, boxed
from tests.tasks.test_average_precision import published
from vitscope.core.bootstrap import biased_intervals
from vitscope.core.errors import BadData, NotFinite, UnsupportedModel
from vitscope.core.statistics import share_interval
from vitscope.data import DataConfig
from vitscope.data.preprocessing import preprocess
from vitscope.data.task_data import TaskData
from vitscope.data.tasks.prepared import ObjectArrays
from vitscope.engine.shown_images import FEW
from vitscope.findings.detection import PRECISIONS, DetectionResult
from vitscope.plots import plot_detection_objects
from vitscope.results.numbers import READINGS
from vitscope.tasks.average_precision import Found
from vitscope.tasks.detection import Detection, compared
from vitscope.training.evaluate import measure

CONFIG = DataConfig((3, 32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0)


@torch.no_grad()
def all_found(model: nn.Module, data: TaskData) -> list[Found]:
    """What is found in each image, one by one, in pixels of its picture."""
    every = []
    for index in range(len(data)):
        picture = data.picture(index)
        said = model(preprocess([picture], CONFIG).to(next(model.parameters()).dtype))[0]
        every.append(compared(said, data.target(index), (32, 32), (picture.height, picture.width)))
    return every


def overlap(a: list[float], b: list[float], crowd: bool) -> float:
    wide = max(0.0, min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]))
    tall = max(0.0, min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]))
    return wide * tall / (a[2] * a[3] + (0.0 if crowd else b[2] * b[3] - wide * tall))


def judged(image: Found) -> list[tuple[float, bool, int]]:
    """Score, whether it is right, and class of every box that counts, by hand."""
    taken: set[int] = set()
    rows = []
    for said in sorted(image.found, key=lambda one: -one["score"]):
        fits = [
            (overlap(said["bbox"], one["bbox"], bool(one["iscrowd"])), k)
            for k, one in enumerate(image.there)
            if one["category_id"] == said["category_id"]
        ]
        free = [
            (iou, k) for iou, k in fits if iou >= 0.5 and k not in taken and not image.there[k]["iscrowd"]
        ]
        if free:
            taken.add(max(free)[1])
        elif any(iou >= 0.5 and image.there[k]["iscrowd"] for iou, k in fits):
            continue
        rows.append((said["score"], bool(free), said["category_id"]))
    return rows


def expected_table(model: nn.Module, data: TaskData) -> dict[tuple[str, None], Any]:
    every = all_found(model, data)
    found = dict(
        zip(PRECISIONS, np.concatenate([published(every, kind) for kind in ("bbox", "segm")]), strict=True)
    )
    rows = [row for image in every for row in judged(image)]
    score, right = (np.array(column, float) for column in list(zip(*rows, strict=True))[:2])
    objects = sum(not one["iscrowd"] for image in every for one in image.there)
    bins = np.ceil(15 * score).clip(1)
    found |= {
        "precision": right[score >= 0.5].mean(),
        "recall": right[score >= 0.5].sum() / objects,
        "confidence": score.mean(),
        "ece": sum(abs((score - right)[bins == b].sum()) for b in range(1, 16)) / len(score),
        "signed_ece": (score - right).mean(),
        "boxes_per_image": (score >= 0.5).sum() / len(every),
        "objects_per_image": objects / len(every),
    }
    return {(quantity, None): value for quantity, value in found.items()}


@pytest.fixture(scope="module")
def result() -> DetectionResult:
    found = vs.exams.detection(SmallDetector().eval(), boxed(20), batch_size=6)
    assert isinstance(found, DetectionResult)
    return found


def test_no_number_is_trivial(result: DetectionResult) -> None:
    known = result.table().set_index("quantity")["value"]
    for quantity in (*PRECISIONS, "precision", "recall", "ece"):
        assert 0.01 < known[quantity] < 0.99, quantity
    assert (result.table()["low"] <= result.table()["value"]).all()
    assert (result.table()["high"] >= result.table()["value"]).all()


def test_few_images_have_wide_intervals_that_hold_the_number_itself() -> None:
    """A class that a replicate lacks is missing in its mean, which is higher then."""
    few = vs.exams.detection(SmallDetector().eval(), boxed(4)).table().set_index("quantity")
    for quantity in ("box_ap", "mask_ap", "box_ap50"):
        assert 0 <= few.loc[quantity, "low"] <= few.loc[quantity, "value"] <= few.loc[quantity, "high"] <= 1
    drawn = np.array([0.1, *np.linspace(0.2, 0.4, 200)])
    low, high = biased_intervals(drawn, 30)
    assert low == 0.0
    assert high == pytest.approx(0.4, abs=0.01)


def test_finding_nothing_or_everything_in_few_images_is_no_certainty() -> None:
    """All replicates agree then; of 8 images the share could be as high as Wilson's limit for 8 answers is, nearly."""
    for value, other in ((0.0, 1), (1.0, 0)):
        ends = biased_intervals(np.full(201, value), 8)
        assert ends[1 - other] == value
        assert abs(ends[other] - value) == pytest.approx(share_interval(0, 8)[1], abs=0.02)
    one_image, many = (biased_intervals(np.full(201, 0.5), n) for n in (1, 400))
    assert one_image[1] - one_image[0] > 0.8
    assert many[1] - many[0] < 0.06
    endless = biased_intervals(np.full(201, 3.0), 8, np.inf)
    assert (endless[0], endless[1]) == (3.0, 3.0)


def test_classes_are_those_of_pycocotools(result: DetectionResult) -> None:
    every = all_found(SmallDetector().eval(), boxed(20))
    table = result.class_table().set_index("name")
    assert list(table.index) == list(CLASSES)
    for number, name in enumerate(CLASSES):
        parts = [
            [one for one in part if one["category_id"] == number]
            for image in every
            for part in (image.found, image.there)
        ]
        alone = [Found(0, i.size, parts[2 * k], parts[2 * k + 1]) for k, i in enumerate(every)]
        ap = table.loc[name, ["box_ap", "box_ap50"]].to_numpy(float)
        np.testing.assert_allclose(ap, published(alone, "bbox")[:2], atol=1e-12)
        assert table.loc[name, "mask_ap"] == pytest.approx(published(alone, "segm")[0], abs=1e-12)
        rows = [row for image in every for row in judged(image) if row[0] >= 0.5 and row[2] == number]
        hits, objects = sum(row[1] for row in rows), table.loc[name, "objects"]
        assert (table.loc[name, "found"], table.loc[name, "recall"]) == (len(rows), hits / objects)
        assert (
            np.isnan(table.loc[name, "precision"])
            if not rows
            else table.loc[name, "precision"] == hits / len(rows)
        )


def test_a_training_measures_the_same(result: DetectionResult) -> None:
    row = measure(SmallDetector().eval(), Detection(), boxed(20), CONFIG)
    rows = result.table().set_index("quantity")
    for quantity in ("box_ap", "box_ap50", "mask_ap", "mask_ap50"):
        ours = rows.loc[quantity, ["value", "low", "high"]].to_numpy(float)
        theirs = [row[quantity], row[f"{quantity}_low"], row[f"{quantity}_high"]]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=quantity)


def test_precision_and_recall_at_another_score(result: DetectionResult) -> None:
    data = boxed(20)
    strict = vs.exams.detection(SmallDetector().eval(), data, score=0.6)
    rows = [
        row for image in all_found(SmallDetector().eval(), data) for row in judged(image) if row[0] >= 0.6
    ]
    assert strict.quantity("boxes_per_image") == len(rows) / 20 < result.quantity("boxes_per_image")
    assert strict.quantity("precision") == pytest.approx(np.mean([row[1] for row in rows]))
    assert strict.box_ap == result.box_ap


def test_boxes_alone_have_no_numbers_of_masks() -> None:
    for model, data in ((SmallDetector(masks=False), boxed(6)), (SmallDetector(), boxed(6, masks=False))):
        found = vs.exams.detection(model.eval(), data)
        assert np.isnan(found.mask_ap)
        assert found.box_ap > 0.01
        assert not any(name.startswith("mask") for name in found.table()["quantity"])
        assert "mask_ap" not in found.class_table()
        assert not found.shown[0].outlines.array[0 if data.target(1).masks is None else 1].any()


def test_the_same_few_images_are_shown_with_their_boxes(result: DetectionResult) -> None:
    other, data = vs.exams.detection(SmallDetector().eval(), boxed(20), batch_size=20), boxed(20)
    assert [one.place for one in other.shown] == [one.place for one in result.shown]
    assert len(result.shown) == FEW
    every = all_found(SmallDetector().eval(), data)
    for one in result.shown:
        objects, scale = data.target(one.place), one.picture.shape[0] / data.size(one.place)[0]
        np.testing.assert_allclose(one.there[:, :4], scale * objects.boxes, atol=1e-9)
        scores = sorted((row["score"] for row in every[one.place].found), reverse=True)
        np.testing.assert_allclose(one.found[:, 5], scores, rtol=1e-5)
        right = sorted(row[0] for row in judged(every[one.place]) if row[1])
        np.testing.assert_allclose(sorted(one.found[one.found[:, 6] == 1, 5]), right, rtol=1e-5)
        assert (one.outlines.array[0] > 0).sum() > 0 or not len(objects)
    ax = plot_detection_objects(result)
    assert len(ax.images) == 2 * FEW
    assert len(ax.lines) == sum(len(one.there) + len(one.found) for one in result.shown)
    assert min(line.get_alpha() or 1.0 for line in ax.lines) >= 0.4  # low scores are seen, too
    assert "The average precision of boxes is" in READINGS["detection"](result)


def test_nothing_found_and_nothing_there() -> None:
    model = SmallDetector().eval()
    model.forward = lambda shown: [  # type: ignore[method-assign]
        {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.long)}
        for _ in shown
    ]
    blind = vs.exams.detection(model, boxed(4))
    assert (blind.box_ap, blind.quantity("recall"), blind.detections) == (0.0, 0.0, 0)
    assert np.isnan(blind.ece)
    assert "there is no box with such a score" in READINGS["detection"](blind)
    with pytest.raises(BadData, match="none of the 2 pictures has an object"):
        vs.exams.detection(SmallDetector().eval(), boxed(8).subset([0, 4]))


class Rectangles(nn.Module):
    """Finds what is bright, and says `score` of it."""

    vitscope_task = "detection"

    def __init__(self, score: float = 0.9) -> None:
        super().__init__()
        self.unused = nn.Conv2d(3, 1, 1)
        self.score = score
        self.pretrained_cfg = {
            "input_size": (3, 128, 128),
            "mean": (0.0,) * 3,
            "std": (1.0,) * 3,
            "crop_pct": 1.0,
        }

    def forward(self, shown: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        found = []
        for image in shown:
            bright = image.mean(0) > 0.3
            rows, columns = torch.where(bright)
            box = torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]).float()[None]
            said = {
                "labels": torch.zeros(1).long(),
                "scores": torch.tensor([self.score]),
                "masks": bright[None].float(),
            }
            found.append({"boxes": box, **said})
        return found


def large_thing_where_no_object_is() -> TaskData:
    objects = np.zeros((2, 128, 128), np.int16)
    objects[0, 20:40, 30:50] = 1
    pixels = np.repeat((255 * (objects > 0)).astype(np.uint8)[..., None], 3, 3)
    pixels[1, 10:120, 10:120] = 255
    reader = ObjectArrays("a test", pixels, objects, np.zeros(1, np.uint8))
    return TaskData("detection", "a test", "test", ("thing",), reader)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_what_is_found_where_nothing_is_counts_by_its_size(batch_size: int) -> None:
    """A large mistake does not lower the AP of small objects, of boxes or masks, whichever images come together."""
    table = vs.exams.detection(Rectangles(), large_thing_where_no_object_is(), batch_size=batch_size).table()
    found = table.set_index("quantity")["value"]
    assert found["box_ap_small"] == pytest.approx(1.0)
    assert found["mask_ap_small"] == pytest.approx(1.0)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(NotFinite, match="boxes or scores that are NaN or infinite"):
        vs.exams.detection(Rectangles(float("nan")), large_thing_where_no_object_is())


def test_a_diagnosis_takes_it_where_data_and_model_are_for_it(tmp_path: Path) -> None:
    model = vs.create_model("maskrcnn:resnet_mini", num_classes=3, channels=8, img_size=32, proposals=10)
    with pytest.warns(UserWarning, match=r"left out: prediction \(it needs a label for each image\)"):
        found = vs.diagnose(model, boxed(4), batch_size=4)
    vs.diagnose(model, boxed(4), ["detection"], batch_size=4, out=tmp_path)
    assert {"detection", "fourier", "variance", "cka"} <= set(found)
    assert not {"prediction", "segmentation", "answers"} & set(found)
    assert found["fourier"].units
    assert (tmp_path / "figures/detection_objects.png").exists()
    page = vs.report(tmp_path, tmp_path / "page.html").read_text()
    assert "Average precision of boxes" in page


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(
        BadData, match=r"is no data of detection; detection needs boxes of objects: give --data coral-"
    ):
        vs.diagnose(SmallDetector(), images(), ["detection"])
    with pytest.raises(
        UnsupportedModel,
        match="does not say that it is made for detection; detection needs a model that was trained",
    ):
        vs.exams.detection(small_vit(), boxed(4))
    with pytest.raises(BadData, match="data of detection, in which no picture has a class of its own"):
        vs.diagnose(SmallDetector(), boxed(4), ["fourier", "passes"])
    broken = SmallDetector()
    broken.scale.data.fill_(float("nan"))
    with pytest.raises(NotFinite, match="'scale' holds 1 of them"):
        vs.exams.detection(broken, boxed(4))
