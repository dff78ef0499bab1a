"""Pixels as predictions: against obvious lines, torchmetrics, and what a training measures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import vitscope as vs
from tests.exams.every_exam import Masks, SmallSegmenter, images, masked, small_vit
from tests.exams.scores_by_hand import scores as scores_by_hand
from vitscope.core.bootstrap import biased_intervals
from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data import DataConfig
from vitscope.data.task_data import NO_CLASS, TaskData
from vitscope.engine.pixel_scores import score_pixels
from vitscope.engine.shown_images import FEW
from vitscope.findings.segmentation import UNKNOWN, WRONG, Overlay, SegmentationResult, _cells
from vitscope.plots import plot_segmentation_overlays
from vitscope.results.numbers import READINGS
from vitscope.tasks.segmentation import Segmentation
from vitscope.training.evaluate import measure

CONFIG = DataConfig((3, 32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0)


def shown(data: TaskData, index: int) -> Tensor:
    pixels = torch.from_numpy(np.asarray(data.picture(index)).copy()).movedim(-1, 0).double()
    return ((pixels / 255).float() - 0.5) / 0.5


@torch.no_grad()
def all_pixels(model: nn.Module, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
    """(pixels, classes) probabilities and (pixels,) classes of all images, written down one by one."""
    found, truth = [], []
    for index in range(len(data)):
        scores = model(shown(data, index)[None].to(next(model.parameters()).dtype)).double()
        large = nn.functional.interpolate(scores, size=(32, 32), mode="bilinear")[0]
        mask = data.target(index)
        found.append(large.softmax(0).movedim(0, -1).numpy()[mask != NO_CLASS])
        truth.append(mask[mask != NO_CLASS])
    return np.concatenate(found), np.concatenate(truth).astype(np.int64)


def overlaps(said: np.ndarray, truth: np.ndarray, classes: int) -> list[float]:
    return [((said == k) & (truth == k)).sum() / ((said == k) | (truth == k)).sum() for k in range(classes)]


def expected_table(model: nn.Module, data: TaskData) -> dict[tuple[str, None], float]:
    p, truth = all_pixels(model, data)
    found = scores_by_hand(p, truth)
    found["signed_ece"] = found["confidence"] - found["accuracy"]
    found["miou"] = float(np.mean(overlaps(p.argmax(1), truth, 3)))
    kept = ("miou", "accuracy", "nll", "brier", "confidence", "ece", "signed_ece")
    return {(quantity, None): found[quantity] for quantity in kept}


@pytest.fixture(scope="module")
def result() -> SegmentationResult:
    found = vs.exams.segmentation(SmallSegmenter().eval(), masked(40), batch_size=16)
    assert isinstance(found, SegmentationResult)
    return found


def test_classes_are_those_of_torchmetrics(result: SegmentationResult) -> None:
    from torchmetrics.classification import (
        MulticlassJaccardIndex,
        MulticlassPrecision,
        MulticlassRecall,
    )

    p, truth = all_pixels(SmallSegmenter().eval(), masked(40))
    table = result.class_table().set_index("name")
    assert list(table.index) == ["sand", "coral", "weed"]
    for kind, name in (
        (MulticlassJaccardIndex, "iou"),
        (MulticlassPrecision, "precision"),
        (MulticlassRecall, "recall"),
    ):
        theirs = kind(num_classes=3, average=None)(torch.from_numpy(p), torch.from_numpy(truth))
        np.testing.assert_allclose(table[name], theirs.numpy(), rtol=1e-5)
    np.testing.assert_allclose(table["share"], np.bincount(truth) / len(truth), rtol=1e-12)
    assert result.pixels == len(truth) == table["pixels"].sum() == result.bin_count.sum()


def test_a_training_measures_the_same(result: SegmentationResult) -> None:
    row = measure(SmallSegmenter().eval(), Segmentation(), masked(40), CONFIG)
    rows = result.table().set_index("quantity")
    ours = rows.loc["accuracy", ["value", "low", "high"]].to_numpy(float)
    np.testing.assert_allclose(ours, [row["accuracy"], row["low"], row["high"]], rtol=1e-9)
    miou = rows.loc["miou"]
    trained = [row["miou"], row["miou_low"], row["miou_high"]]
    np.testing.assert_allclose(miou[["value", "low", "high"]].to_numpy(float), trained, rtol=1e-9)
    assert rows.loc["nll", "value"] == pytest.approx(row["nll"], rel=1e-6)


def test_intervals_are_nearly_those_of_drawing_whole_images(result: SegmentationResult) -> None:
    model, data = SmallSegmenter().eval(), masked(40)
    tables = []
    for index in range(40):
        p, truth = all_pixels(model, data.subset([index]))
        said = p.argmax(1)
        tables.append(
            [[((said == k) & (truth == k)).sum(), ((said == k) | (truth == k)).sum()] for k in range(3)]
        )
    counts = np.array(tables, float)
    drawn = np.random.default_rng(0).integers(0, 40, (2000, 40))
    sums = counts[drawn].sum(1)
    whole = counts.sum(0)
    values = np.concatenate([[whole], sums])
    low, high = biased_intervals((values[..., 0] / values[..., 1]).mean(1), 40)
    row = result.table().iloc[0]
    assert row["high"] - row["low"] == pytest.approx(high - low, rel=0.15)
    assert row["low"] == pytest.approx(low, abs=0.1 * (high - low))


def test_pieces_of_an_image_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    scores, mask = torch.randn(7, 6, 5), torch.randint(-1, 7, (12, 10))
    columns, table, said = score_pixels(scores, mask)
    monkeypatch.setattr("vitscope.engine.pixel_scores.IN_DOUBLE", 70)
    again, _, _ = score_pixels(scores, mask)
    np.testing.assert_allclose(again, columns, rtol=1e-12)
    assert int(columns[0]) == int((mask != NO_CLASS).sum()) == int(table[1].sum()) == int(table[2].sum())
    assert said.shape == (12, 10)


def test_the_same_few_images_are_shown_whatever_the_batches(result: SegmentationResult) -> None:
    other = vs.exams.segmentation(SmallSegmenter().eval(), masked(40), batch_size=7)
    assert [one.place for one in other.overlays] == [one.place for one in result.overlays]
    assert len(result.overlays) == FEW
    data = masked(40)
    for one in other.overlays:
        assert (one.truth == data.target(one.place)).all()
        assert (one.picture.array == np.asarray(data.picture(one.place))).all()
        with torch.no_grad():
            scores = SmallSegmenter()(shown(data, one.place)[None])
        large = nn.functional.interpolate(scores, size=(32, 32), mode="bilinear")[0]
        assert (one.prediction == large.argmax(0).numpy()).mean() > 0.999


def test_errors_are_red_and_pixels_without_a_class_grey() -> None:
    truth = np.array([[0, 1], [300, NO_CLASS]], np.int16)
    said = np.array([[0, 2], [300, 0]], np.int16)
    overlay = Overlay.of(0, np.full((2, 2, 3), 255, np.uint8), truth, said)
    assert overlay.truth.tolist() == truth.tolist()
    assert overlay.prediction.tolist() == said.tolist()
    _, painted, _, errors = _cells(overlay)
    assert errors[0, 1].tolist() == list(WRONG)
    assert errors[1, 1].tolist() == list(UNKNOWN)
    assert errors[0, 0].tolist() == errors[1, 0].tolist() == [0.35 + 0.6] * 3
    assert len({tuple(painted[place]) for place in ((0, 0), (0, 1), (1, 0), (1, 1))}) == 4


def test_a_figure_names_the_classes_that_it_shows(result: SegmentationResult) -> None:
    ax = plot_segmentation_overlays(result)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["sand", "coral", "weed", "wrong"]
    assert len(ax.images) == 4 * FEW


def test_images_without_any_class_do_not_count() -> None:
    class Blank(TaskData):
        def target(self, index: int) -> np.ndarray:
            mask = super().target(index)
            return np.full_like(mask, NO_CLASS) if index == 3 else mask

    data = masked(6)
    blank = Blank(data.task, data.spec, data.split, data.classes, data.reader)
    found = vs.exams.segmentation(SmallSegmenter().eval(), blank)
    without = vs.exams.segmentation(SmallSegmenter().eval(), data.subset([0, 1, 2, 4, 5]))
    assert (found.n, found.pixels) == (5, without.pixels)
    np.testing.assert_allclose(found.value, without.value, rtol=1e-12)


def test_a_diagnosis_takes_it_where_data_and_model_are_for_it(tmp_path: Path) -> None:
    model = vs.create_model("upernet:vit_mini", num_classes=3, channels=8, depth=4)
    found = vs.diagnose(model, masked(6), batch_size=4)
    assert {"segmentation", "fourier"} <= set(found)
    assert "prediction" not in found
    vs.diagnose(model, masked(6), ["segmentation"], batch_size=4, out=tmp_path)
    assert (tmp_path / "figures/segmentation_overlays.png").exists()
    kept = tmp_path / "exams/segmentation/result.json"
    written = kept.stat().st_mtime_ns
    again = vs.diagnose(model, masked(6), ["segmentation", "variance"], batch_size=4, out=tmp_path)
    assert kept.stat().st_mtime_ns == written  # it is known by its weights and images, and not done again
    assert again["segmentation"].data == "masks:small (test)"
    assert again["segmentation"].overlays[0].picture.shape == (32, 32, 3)
    page = vs.report(tmp_path, tmp_path / "page.html").read_text()
    assert "Intersection over union of each class" in page
    assert "where it is wrong" in page
    plain = vs.diagnose(small_vit(), masked(6), batch_size=4)
    assert "fourier" in plain
    assert "segmentation" not in plain


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(
        BadData, match=r"is no data of segmentation; segmentation needs a class for every pixel"
    ):
        vs.diagnose(SmallSegmenter(), images(), ["segmentation"])
    with pytest.raises(
        UnsupportedModel, match=r"puts out \(6, 10\), expected \(images, classes, height, width\)"
    ):
        vs.exams.segmentation(small_vit(), masked(6))
    model = SmallSegmenter()
    model.conv = nn.Conv2d(3, 2, 3, 2, 1)
    with pytest.raises(BadData, match=r"picture \d has pixels of class 2, the model has outputs 0 to 1"):
        vs.exams.segmentation(model, masked(6))
    with pytest.raises(BadData, match="data of segmentation, in which no picture has a class of its own"):
        vs.diagnose(SmallSegmenter(), masked(6), ["prediction"])


def test_windows_are_what_a_training_measures_with_them() -> None:
    model, data = SmallSegmenter().eval(), masked(6)
    found = vs.exams.segmentation(model, data, batch_size=4, window=1.5)
    rows = found.table().set_index("quantity")
    row = measure(model, Segmentation(1.5), data, CONFIG)
    assert rows.loc["miou", "value"] == pytest.approx(row["miou"], rel=1e-9)
    assert rows.loc["nll", "value"] == pytest.approx(row["nll"], rel=1e-6)
    whole = vs.exams.segmentation(model, data, batch_size=4)
    assert whole.quantity("nll") != found.quantity("nll")
    one = vs.diagnose(model, data, ["segmentation"], options={"segmentation": {"window": 1.5}})
    assert one["segmentation"].table()["value"][0] == rows["value"].iloc[0]


def test_attention_is_shown_on_the_same_images(result: SegmentationResult) -> None:
    data = masked(40)
    maps = vs.exams.maps(small_vit(), data, count=5, batch_size=2)
    assert maps.indices[:3].tolist() == [overlay.place for overlay in result.overlays]
    few = vs.exams.segmentation(SmallSegmenter().eval(), data, limit=12, seed=3)
    maps = vs.exams.maps(small_vit(), data, count=3, limit=12, seed=3)
    assert maps.indices.tolist() == [overlay.place for overlay in few.overlays]
    for place, thumbnail in zip(maps.indices, maps.images.array, strict=True):
        picture = np.asarray(data.picture(int(place)), float)
        own = np.corrcoef(picture.ravel(), np.moveaxis(thumbnail, 0, -1).ravel())[0, 1]
        assert own > 0.99


class Rare(Masks):
    """The last class is in one picture alone; pictures show their masks."""

    def target(self, index: int) -> np.ndarray:
        mask = super().target(index).copy()
        mask[mask == 2] = 2 if index == 5 else NO_CLASS
        return mask

    def picture(self, index: int) -> Image.Image:
        return Image.fromarray(np.repeat(100 * self.target(index).clip(0)[..., None], 3, 2).astype(np.uint8))


class SeesMasks(SmallSegmenter):
    """Knows the class of every pixel."""

    def forward(self, images: Tensor) -> Tensor:
        classes = (images[:, :1] + 1) * 255 / 200
        return -100 * (classes - torch.arange(3)[:, None, None]).abs()


def test_a_class_that_one_image_shows_is_not_known_well() -> None:
    """All replicates that draw the image agree, and know nothing of other images."""
    data = masked(12)
    found = vs.exams.segmentation(
        SeesMasks(), TaskData(data.task, data.spec, data.split, data.classes, Rare(12))
    )
    table = found.class_table().set_index("name")
    assert table["iou"].tolist() == [1.0, 1.0, 1.0]
    assert table.loc["weed", "iou_low"] < 0.6
    assert table.loc["weed", "iou_low"] < table.loc["sand", "iou_low"] < 0.95
    assert found.estimate.at(0).low < 0.95


class Blank(Masks):
    """Of two out of three pictures nobody has said anything."""

    def target(self, index: int) -> np.ndarray:
        mask = super().target(index)
        return np.full_like(mask, NO_CLASS) if index % 3 else mask


def test_pictures_of_which_nobody_says_anything_do_not_count_in_a_training_either() -> None:
    data = masked(12)
    blank = TaskData(data.task, data.spec, data.split, data.classes, Blank(12))
    row = measure(SmallSegmenter().eval(), Segmentation(), blank, CONFIG)
    found = vs.exams.segmentation(SmallSegmenter().eval(), blank).table().set_index("quantity")
    ends = found.loc["miou", ["low", "high"]].to_numpy(float)
    np.testing.assert_allclose(ends, [row["miou_low"], row["miou_high"]], rtol=1e-9)


def test_under_noise_the_interval_of_miou_is_the_same_one() -> None:
    model, data = SmallSegmenter().eval(), masked(12)
    plain = vs.exams.segmentation(model, data).table().set_index("quantity").loc["miou"]
    noisy = vs.exams.noise(model, data).table()
    rows = noisy[(noisy["quantity"] == "miou") & (noisy["condition"] == "clean")]
    ends = ["value", "low", "high"]
    np.testing.assert_allclose(rows[ends].to_numpy(float)[0], plain[ends].to_numpy(float), rtol=1e-9)


class OneBright(Masks):
    """The first picture is white, all others are black."""

    def picture(self, index: int) -> Image.Image:
        return Image.new("RGB", (32, 32), (0, 0, 0) if index else (255, 255, 255))


class SureOfBright(SmallSegmenter):
    """Takes everything for sand, and is the surer the brighter it is."""

    def forward(self, images: Tensor) -> Tensor:
        bright = images.mean(1, keepdim=True)[..., ::2, ::2] + 0 * self.conv.weight.sum()
        return torch.cat([1.5 + bright, 0 * bright, 0 * bright], 1)


def test_a_bin_that_one_image_fills_is_no_certainty() -> None:
    data = TaskData("segmentation", "masks:small", "test", ("sand", "coral", "weed"), OneBright(20))
    result = vs.exams.segmentation(SureOfBright().eval(), data, batch_size=8)
    table = result.reliability_table()
    black, white = (row for row in table[table["pixels"] > 0].itertuples())
    assert white.pixels == 32 * 32
    assert white.accuracy_high - white.accuracy_low > 0.8
    assert black.accuracy_high - black.accuracy_low < 0.3


def test_classes_that_are_found_equally_badly_are_counted() -> None:
    result = vs.exams.segmentation(SureOfBright().eval(), masked(10), batch_size=8)
    assert READINGS["segmentation"](result).endswith("worst coral and 1 more (0 %).")
