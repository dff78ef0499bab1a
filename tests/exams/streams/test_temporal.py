"""The temporal exam against float64 loops over frames of which every prediction is known, and on moving pictures."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.moving_pictures import Known, known_table, level_stream, random_levels, smoothed_by_hand
from tests.exams.scores_by_hand import scores
from vitscope.core.errors import BadData, VitscopeError
from vitscope.data import FrameData, ImageData, data_config, moving_crops, preprocess
from vitscope.data.task_data import TaskData
from vitscope.data.tasks.prepared import MaskArrays
from vitscope.exams import prediction, temporal
from vitscope.findings.temporal import QUANTITIES, RATIOS, TemporalResult
from vitscope.results import Result


def column(result: TemporalResult, quantity: str) -> np.ndarray:
    return result.value[:, QUANTITIES.index(quantity)]


@torch.no_grad()
def expected_table(model: nn.Module, data: FrameData) -> dict[tuple[str, None], Any]:
    assert data.images is not None
    pictures = torch.from_numpy(data.images).permute(0, 3, 1, 2).double() / 127.5 - 1
    q = model(pictures).softmax(1).numpy()
    alone = [q[own.start : own.stop] for own in data.sequences]
    smoothed = [smoothed_by_hand(own, 0.8, 5) for own in alone]
    known = []
    for predicted in (alone, smoothed):
        p, classes = np.concatenate(predicted), [own.argmax(1) for own in predicted]
        same = np.concatenate([own[1:] == own[:-1] for own in classes]).mean()
        known.append({**scores(p, data.labels), "consistency": same})
    found = {quantity: [one[quantity] for one in known] for quantity in QUANTITIES}
    found |= {f"{quantity} change": [found[quantity][1] - found[quantity][0]] for quantity in QUANTITIES}
    ratios = {"error": (1 - known[1]["accuracy"]) / (1 - known[0]["accuracy"])}
    ratios |= {name: known[1][name] / known[0][name] for name in ("nll", "brier", "ece")}
    found |= {f"{name} ratio": [ratio] for name, ratio in ratios.items()}
    return {(quantity, None): values for quantity, values in found.items()}


def without_speed(result: Result) -> pd.DataFrame:
    table = result.table()
    return table[table["quantity"] != "throughput"]


@pytest.mark.parametrize(("rate", "previous"), [(0.8, 5), (0.0, 2)])
def test_equals_a_loop_over_frames(rate: float, previous: int) -> None:
    levels = random_levels(23, 1, 17)
    data = level_stream(levels)
    result = temporal(Known(known_table()), data, batch_size=5, rate=rate, previous=previous)
    sequences = [known_table()[torch.tensor(own)].double().softmax(1).numpy() for own in levels]
    smoothed = [smoothed_by_hand(q, rate, previous) for q in sequences]
    assert (result.n, result.sequences) == (41, 3)
    for row, parts in enumerate((sequences, smoothed)):
        p, classes = np.concatenate(parts), [part.argmax(1) for part in parts]
        same = sum((own[1:] == own[:-1]).sum() for own in classes)
        assert column(result, "consistency")[row] == pytest.approx(same / (22 + 16))
        assert column(result, "accuracy")[row] == pytest.approx((p.argmax(1) == data.labels).mean())
        assert column(result, "nll")[row] == pytest.approx(
            -np.log(p[np.arange(41), data.labels]).mean(), rel=1e-5
        )
        assert column(result, "ece")[row] == pytest.approx(scores(p, data.labels)["ece"], rel=1e-4)
        np.testing.assert_allclose(result.trace[row], parts[0][np.arange(23), data.labels[:23]], rtol=1e-4)
    left = result.ratio.value[1]
    assert left[RATIOS.index("nll")] == pytest.approx(column(result, "nll")[1] / column(result, "nll")[0])
    flips = 1 - column(result, "consistency")
    assert left[RATIOS.index("flips")] == pytest.approx(flips[1] / flips[0])
    labels = data.labels
    same_labels = sum(
        (labels[s.start + 1 : s.stop] == labels[s.start : s.stop - 1]).sum() for s in data.sequences
    )
    assert result.labels[0] == pytest.approx(same_labels / 38)


def test_a_constant_stream_is_left_alone() -> None:
    result = temporal(Known(known_table()), level_stream([[3] * 40] * 6))
    np.testing.assert_allclose(result.value[1], result.value[0], rtol=1e-5)
    assert column(result, "consistency").tolist() == [1.0, 1.0]
    assert np.isnan(result.ratio.value[1, RATIOS.index("flips")])  # there were none to begin with
    np.testing.assert_allclose(result.change.value[1], 0.0, atol=1e-5)


def test_pieces_change_nothing_and_sequences_do_not_touch() -> None:
    levels, model = random_levels(20, 15), Known(known_table())
    apart = temporal(model, level_stream(levels))
    by_one = temporal(model, level_stream(levels), batch_size=1)
    pd.testing.assert_frame_equal(without_speed(by_one), without_speed(apart), rtol=1e-9)
    joined = temporal(model, level_stream([levels[0] + levels[1]]))
    assert column(joined, "nll")[0] == pytest.approx(column(apart, "nll")[0])
    assert column(joined, "nll")[1] != pytest.approx(column(apart, "nll")[1], rel=1e-6)


@pytest.mark.parametrize("scale", [1, 2])
def test_points_of_masks_equal_a_loop_over_points(scale: int) -> None:
    generator = np.random.default_rng(1)
    levels = generator.integers(0, 30, (6, 8, 8)).astype(np.uint8)
    masks = generator.integers(0, 4, (6, 8, 8)).astype(np.uint8)
    masks[generator.random(masks.shape) < 0.2] = 255
    masks[4] = 255  # not labelled at all
    model: nn.Module = Known(known_table(), points=True)
    expected = known_table()[torch.from_numpy(levels).long()].movedim(-1, 1).double()
    if scale == 2:  # maps smaller than the masks are enlarged
        model = nn.Sequential(model, nn.AvgPool2d(2))
        model.pretrained_cfg = model[0].pretrained_cfg  # type: ignore[assignment]
        small = nn.functional.avg_pool2d(expected, 2)
        expected = nn.functional.interpolate(small, (8, 8), mode="bilinear", align_corners=False)
    data = FrameData("points", "test", "abcd", None, [6], images=levels[..., None], masks=masks)
    result = temporal(model, data, batch_size=4)
    q = expected.softmax(1).numpy()
    known = masks != 255
    for row, p in enumerate((q, smoothed_by_hand(q, 0.8, 5))):
        points = p.transpose(0, 2, 3, 1)[known]
        true = points[np.arange(len(points)), masks[known]]
        assert column(result, "nll")[row] == pytest.approx(-np.log(true).mean(), rel=1e-5)
        assert column(result, "accuracy")[row] == pytest.approx((points.argmax(1) == masks[known]).mean())
        assert column(result, "ece")[row] == pytest.approx(scores(points, masks[known])["ece"], rel=1e-4)
        classes = p.argmax(1)
        assert column(result, "consistency")[row] == pytest.approx((classes[1:] == classes[:-1]).mean())
    both = known[1:] & known[:-1]
    assert result.labels[0] == pytest.approx((masks[1:] == masks[:-1])[both].mean())
    assert np.isnan(result.trace[0, 4])
    assert np.isfinite(result.trace[0, :4]).all()


def test_a_stream_of_segmentation_is_taken_as_frames_with_masks_are() -> None:
    generator = np.random.default_rng(2)
    levels = generator.integers(0, 30, (9, 8, 8)).astype(np.uint8)
    masks = generator.integers(0, 4, (9, 8, 8)).astype(np.uint8)
    reader = MaskArrays("points", np.repeat(levels[..., None], 3, 3), masks)
    stream = TaskData("segmentation", "points", "test", "abcd", reader, lengths=[5, 4])
    model = Known(known_table(), points=True)
    found = temporal(model, stream, batch_size=4)
    frames = FrameData("points", "test", "abcd", None, [5, 4], images=levels[..., None], masks=masks)
    pd.testing.assert_frame_equal(without_speed(found), without_speed(temporal(model, frames)), rtol=1e-9)
    with pytest.raises(BadData, match=r"points \(test\) is no stream of frames, which temporal needs; give"):
        temporal(model, stream.subset(range(9)))


@pytest.fixture(scope="module")
def moving() -> FrameData:
    """Garments that move by a few points under noise."""
    fashion = vs.load_data("fashion")
    assert fashion.images is not None
    photos = [np.pad(fashion.images[i, :, :, 0], 4) for i in range(24)]
    labels = fashion.labels[:24].tolist()
    return moving_crops(photos, labels, classes=fashion.classes, frames=12, speed=0.5, noise=20.0)


def test_moving_garments_are_seen_more_steadily(moving: FrameData) -> None:
    model = vs.create_model("resnet_mini", pretrained=True)
    result = temporal(model, moving)
    assert (result.blocks, result.block) == (24, 0)  # enough sequences: each is a block
    plain = prediction(model, moving)
    assert column(result, "accuracy")[0] == pytest.approx(plain.accuracy, abs=1e-9)
    assert column(result, "nll")[0] == pytest.approx(plain.nll, rel=1e-5)
    assert column(result, "accuracy")[0] > 0.5
    assert result.ratio.high[1, RATIOS.index("flips")] < 1
    assert result.ratio.high[1, RATIOS.index("nll")] < 1
    assert result.change.low[1, QUANTITIES.index("consistency")] > 0
    assert result.labels == pytest.approx([1.0, 24 / (24 + 1.959964**2), 1.0])  # of 24 blocks
    assert result.timed == 30
    assert 0.3 < result.throughput[1, 0] < 1.3


def test_mc_dropout_and_single_draws(small_vit: nn.Module, moving: FrameData) -> None:
    result = temporal(small_vit, moving, limit=12, passes=3, p=0.2, seed=4)
    assert result.way == ("one pass",) * 2 + ("mc dropout",) * 2 + ("one draw",) * 2
    assert (result.source, result.n, result.sequences) == ("MC dropout, p = 0.2", 12, 6)
    assert result.names[3] == "mc dropout + temporal"
    copy = vs.surgery.mc_dropout(deepcopy(small_vit).eval(), p=0.2)
    assert moving.images is not None
    frames = np.concatenate([moving.images[s[:2]] for s in moving.sequences[:6]])
    shown = preprocess(frames, data_config(small_vit))
    labels = torch.from_numpy(np.concatenate([moving.labels[s[:2]] for s in moving.sequences[:6]]))
    with torch.no_grad(), vs.surgery.sampling(copy, seed=4):
        p = torch.stack([copy(shown) for _ in range(3)]).double().softmax(2).mean(0)
    nll = -p[torch.arange(12), labels].log().mean()
    assert column(result, "nll")[2] == pytest.approx(float(nll), rel=1e-4)
    assert column(result, "nll")[4] != column(result, "nll")[0]
    drawn = result.replicates()  # of every condition, so that models are compared in each of them
    for row, name in enumerate(result.names):
        assert drawn[f"consistency, {name}"][0] == column(result, "consistency")[row]
    table = result.combinations()
    assert table[["way", "temporal"]].to_numpy().tolist() == [
        [way, smoothed] for way in ("one pass", "mc dropout", "one draw") for smoothed in (False, True)
    ]
    for name in ("nll", "accuracy", "ece", "consistency"):
        assert table[name].tolist() == column(result, name).tolist()
        low = result.low[:, QUANTITIES.index(name)].tolist()
        assert table[f"{name}_low"].tolist() == pytest.approx(low, nan_ok=True)
    assert table["throughput"].tolist() == result.throughput[:, 0].tolist()


def test_a_model_that_smooths_already_is_compared_with_itself_without() -> None:
    data, model = level_stream(random_levels(20, 15)), Known(known_table())
    expected = temporal(model, data, rate=0.3, previous=2)
    vs.surgery.temporal(model, rate=0.3, previous=2, example=(1, 8, 8))
    found = temporal(model, data)
    assert (found.rate, found.previous) == (0.3, 2)
    pd.testing.assert_frame_equal(without_speed(found), without_speed(expected), rtol=1e-9)


def test_data_that_is_no_stream(small_vit: nn.Module, fashion: ImageData, tmp_path: Path) -> None:
    small_vit.register_forward_pre_hook(lambda *_: pytest.fail("a pass was begun"))
    for examine in (
        lambda: vs.diagnose(small_vit, fashion, ["all", "temporal"], limit=4, out=tmp_path / "a"),
        lambda: vs.evaluate(small_vit, fashion, ["prediction", "temporal"], limit=4, out=tmp_path / "b"),
        lambda: temporal(small_vit, fashion),
    ):
        with pytest.raises(
            BadData, match=r"fashion \(test\) is no stream of frames, which temporal needs; give"
        ):
            examine()
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_is_said() -> None:
    data = level_stream(random_levels(4))
    with (
        pytest.warns(UserWarning, match="4 classes"),
        pytest.raises(BadData, match=r"frame \d has class 3, the model has outputs 0 to 2"),
    ):
        temporal(Known(known_table(classes=3)), data)
    with pytest.raises(VitscopeError, match="maps for masks"):
        temporal(Known(known_table(), points=True), data)
    with pytest.raises(VitscopeError, match="not finite"):
        temporal(Known(known_table() * torch.nan), data)
