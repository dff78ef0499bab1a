import numpy as np
import pytest
import torch

from vitscope.core.errors import BadData
from vitscope.data import Readout, load_data, readout, relabel
from vitscope.data.readouts import PLAIN

LOGITS = torch.tensor([[1.0, 4.0, 2.0, 3.0], [5.0, 1.0, 0.0, 2.0]])
LABELS = torch.tensor([3, 2])
PLACES = torch.tensor([1, 0])


def test_plain_changes_nothing() -> None:
    logits, labels = PLAIN(LOGITS, LABELS, PLACES)
    assert logits is LOGITS
    assert labels is LABELS
    assert PLAIN.digest == Readout(("a", "b")).digest == b""


def test_only_some_outputs_may_be_chosen() -> None:
    logits, labels = Readout(outputs=np.array([0, 2, 3]))(LOGITS, LABELS, PLACES)
    assert logits.tolist() == [[1.0, 2.0, 3.0], [5.0, 0.0, 2.0]]
    assert labels.tolist() == [2, 1]


def test_of_several_right_labels_the_likeliest_counts() -> None:
    by_place = ((0, 1, 2), (2, 3))
    logits, labels = Readout(answers=by_place)(LOGITS, LABELS, PLACES)
    assert logits is LOGITS
    assert labels.tolist() == [3, 0]  # image 1: 3 beats 2; image 0: 0 beats 1 and 2


def test_both_together() -> None:
    found = Readout(outputs=np.array([1, 2, 3]), answers=((1, 2), (1, 3)))(LOGITS, LABELS, PLACES)
    assert found[1].tolist() == [0, 0]


def test_a_model_with_too_few_outputs_is_refused() -> None:
    with pytest.raises(BadData, match="outputs 0 to 3, the classes need output 9"):
        Readout(outputs=np.array([0, 9]))(LOGITS, LABELS, PLACES)


def test_digests_tell_readouts_apart() -> None:
    several = [
        Readout(outputs=np.array([0, 1])),
        Readout(outputs=np.array([0, 2])),
        Readout(answers=((0,), (1,))),
    ]
    assert len({found.digest for found in several}) == 3


def test_of_data() -> None:
    data = load_data("fashion")
    assert readout(data) == Readout(data.classes)
    assert readout((LOGITS, LABELS)) is PLAIN
    assert readout(relabel(data, classes="present")).classes == data.classes
