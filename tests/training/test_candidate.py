import numpy as np
import pytest
import torch

import vitscope as vs
from tests.surgery.measures import tiny
from vitscope.core.errors import BadData
from vitscope.data import TaskData, batches
from vitscope.data.tasks.prepared import MaskArrays
from vitscope.training import evaluate
from vitscope.training.candidate import correctness, split, train_and_score


def test_split_is_stratified_seeded_and_leaves_nothing_out():
    data = vs.load_data("fashion", split="train", fraction=0.1)
    learned, scored = split(data, 0.2, seed=3)
    assert np.array_equal(np.sort([*learned.positions, *scored.positions]), np.sort(data.positions))
    shares = np.bincount(scored.labels, minlength=10) / np.bincount(data.labels, minlength=10)
    assert np.abs(shares - 0.2).max() < 0.02
    assert np.array_equal(split(data, 0.2, seed=3)[1].positions, scored.positions)
    assert not np.array_equal(split(data, 0.2, seed=4)[1].positions, scored.positions)
    with pytest.raises(BadData, match=r"validation is 1\.0"):
        split(data, 1.0)


def test_pictures_of_a_task_are_held_out_by_what_they_share():
    images = np.zeros((10, 4, 4, 3), np.uint8)
    reader = MaskArrays("a test", images, images[..., 0], overlapping=5)
    learned, scored = split(TaskData("segmentation", "a test", "train", ("a",), reader), 0.5)
    assert {len(set(part.positions // 5)) for part in (learned, scored)} == {1}


def test_correctness_is_per_image_in_the_order_of_the_data():
    model = vs.create_model("resnet_mini", pretrained=True).train()
    data = vs.load_data("fashion", split="test").fraction(0.1)
    right = correctness(model, data)
    assert model.training
    assert np.mean(right) == evaluate(model, data).accuracy
    model.eval()
    with torch.no_grad():
        for images, labels, indices in batches(data.subset(np.arange(20)), model):
            for image, label, index in zip(images, labels, indices, strict=True):
                assert right[index] == int(model(image[None]).argmax() == label)


def test_trains_scores_and_goes_on_without_touching_the_test_split(tmp_path):
    options = dict(data="fashion", fraction=0.06, epochs=1)
    first = train_and_score(tiny(), tmp_path, **options)
    train = vs.load_data("fashion", split="train", fraction=0.06)
    assert len(first) == len(split(train, 0.2)[1])
    assert set(first) <= {0, 1}
    saved = vs.create_model(tmp_path)
    assert correctness(saved, split(train, 0.2)[1]) == first
    metrics = (tmp_path / "metrics.csv").read_text()
    assert train_and_score(tiny(), tmp_path, **options) == first  # done already: scored again, not trained
    assert (tmp_path / "metrics.csv").read_text() == metrics
