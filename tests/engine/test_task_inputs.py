"""Data in which there is nothing to be found is refused in words, before any pass."""

from typing import Any

import numpy as np
import pytest

import vitscope as vs
from tests.exams.every_exam import SmallSegmenter, masked
from tests.exams.task_cases import squares, vilt
from tests.exams.task_models import SmallDetector, boxed
from vitscope.core.errors import BadData
from vitscope.data.task_data import NO_CLASS, Objects, TaskData
from vitscope.tasks.detection import Detection
from vitscope.training.evaluate import measure

LACKING = {
    "segmentation": r"none of the 4 pictures has a pixel with a class, the first is .*; expected at least one",
    "detection": r"none of the 4 pictures has an object, the first is .*, without which there is no AP: give",
    "answers": r"none of the 4 questions has an answer that can be chosen, the first is .* there is no accuracy",
}


class Silent:
    """A reader whose targets say nothing."""

    def __init__(self, reader: Any, saying: tuple[int, ...] = ()) -> None:
        self._reader, self._saying = reader, saying

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def __len__(self) -> int:
        return len(self._reader)

    def target(self, index: int) -> Any:
        told = self._reader.target(index)
        if index in self._saying:
            return told
        if isinstance(told, Objects):
            crowd = np.ones(len(told), bool)
            return Objects(told.boxes, told.labels, told.masks, crowd, told.areas, told.image_id)
        return np.full_like(told, NO_CLASS if told.ndim == 2 else 0)


def silenced(data: TaskData, saying: tuple[int, ...] = ()) -> TaskData:
    return TaskData(data.task, data.spec, data.split, data.classes, Silent(data.reader, saying))  # type: ignore[arg-type]


CASES: dict[str, Any] = {
    "segmentation": lambda: (SmallSegmenter().eval(), masked(4)),
    "detection": lambda: (SmallDetector().eval(), boxed(4)),
    "answers": lambda: (vilt(), squares("vqa", 4)),
}


@pytest.mark.parametrize("task", CASES)
def test_nothing_to_find_is_refused(task: str) -> None:
    model, data = CASES[task]()
    for exam in (task, "noise", "lesion"):
        with pytest.raises(BadData, match=LACKING[task]):
            vs.diagnose(model, silenced(data), [exam])
    with pytest.raises(BadData, match=r"none of its 4 targets says anything|none of the 4"):
        vs.exams.occlusion(model, silenced(data))
    found = vs.diagnose(model, silenced(data, saying=(2,)), [task])
    assert not np.isnan(found[task].estimate.at(0).value)  # type: ignore[attr-defined]


def test_a_limit_that_leaves_nothing_is_told() -> None:
    with pytest.raises(
        BadData, match=r"none of the 2 pictures has an object, .*: raise limit \(of 4\), or give"
    ):
        vs.exams.detection(SmallDetector().eval(), silenced(boxed(4)), limit=2)


def test_exams_of_features_need_no_targets() -> None:
    model = vs.create_model("upernet:vit_mini", num_classes=3, img_size=32, channels=8, depth=4)
    assert vs.exams.fourier(model, silenced(masked(4))).n == 4


def test_a_training_says_that_there_is_no_precision() -> None:
    model, data = SmallDetector().eval(), silenced(boxed(4))
    with pytest.warns(UserWarning, match="none of the 4 held-out pictures has an object: there is no AP"):
        row = measure(model, Detection(), data, vs.data.data_config(model))
    assert np.isnan(row["box_ap"])
