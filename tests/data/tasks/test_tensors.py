"""Masks in memory: the same numbers as from files, whatever form they come in, and refusals in words."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

import vitscope as vs
from tests.exams.every_exam import SmallSegmenter, masked
from tests.exams.task_models import SmallDetector
from vitscope.core.errors import BadArgument, BadData
from vitscope.data import data_config
from vitscope.data.preprocessing import preprocess

COUNT = 6
DATA = masked(COUNT)
PIXELS = np.stack([np.asarray(DATA.picture(k)) for k in range(COUNT)])
MASKS = torch.from_numpy(np.stack([DATA.target(k) for k in range(COUNT)]).astype(np.int64))


def prepared() -> Tensor:
    return preprocess(PIXELS, data_config(SmallSegmenter()))


class Items(Dataset[Any]):
    """Images with masks, one by one."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        torch.rand(1)
        return prepared()[index], MASKS[index]


class Pictures(Items):
    """The same as files would give them, before anything is prepared."""

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return DATA.picture(index), MASKS[index].numpy()


class PictureMasks(Items):
    """Masks as pictures, in which every pixel has a class."""

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return DATA.picture(index), Image.fromarray(MASKS[index].clamp(0).numpy().astype(np.uint8))


FORMS: dict[str, Any] = {
    "float": lambda: (prepared(), MASKS),
    "list": lambda: [prepared(), MASKS.numpy()],
    "uint8": lambda: (torch.from_numpy(PIXELS).permute(0, 3, 1, 2), MASKS),
    "array": lambda: (PIXELS, MASKS.to(torch.int16).numpy()),
    "set": lambda: TensorDataset(prepared(), MASKS),
    "loader": lambda: DataLoader(TensorDataset(prepared(), MASKS), batch_size=4),
    "loader of items": lambda: DataLoader(Items(), batch_size=4),
    "items": Items,
    "pictures": Pictures,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_numbers_as_from_files(form: str) -> None:
    model = SmallSegmenter().eval()
    expected = vs.diagnose(model, DATA, ["segmentation", "noise"])
    found = vs.diagnose(model, FORMS[form](), ["segmentation", "noise"])
    np.testing.assert_allclose(found["segmentation"].value, expected["segmentation"].value, rtol=1e-5)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found["segmentation"].low, expected["segmentation"].low, rtol=1e-4, atol=1e-6)  # type: ignore[attr-defined]
    ours, theirs = (one["noise"].table()["value"].to_numpy(float) for one in (found, expected))
    np.testing.assert_allclose(ours, theirs, rtol=0.05, atol=1e-3)


def test_every_function_takes_them() -> None:
    model, pair = SmallSegmenter().eval(), (prepared(), MASKS)
    alone = vs.exams.segmentation(model, pair)
    np.testing.assert_allclose(alone.value, vs.exams.segmentation(model, DATA).value, rtol=1e-9)
    assert len(alone.overlays) == 3
    told = vs.evaluate({"a": model, "b": model}, pair, ["segmentation"])
    assert (told.differences()["value"] == 0).all()
    assert alone.data == "tensors (given)"
    assert alone.images_digest != vs.exams.segmentation(model, (prepared(), 2 - MASKS.clamp(0))).images_digest
    some = vs.exams.segmentation(model, FORMS["loader"](), limit=3)
    first = vs.exams.segmentation(model, (prepared()[:3], MASKS[:3]))
    assert some.value.tolist() == first.value.tolist()
    assert vs.exams.hessian(model, (PIXELS, MASKS), batch_size=4, batches=1, k=1).n == 4
    assert "segmentation" in vs.diagnose(model, pair)


def test_masks_may_be_pictures() -> None:
    model = SmallSegmenter().eval()
    found = vs.exams.segmentation(model, PictureMasks())
    expected = vs.exams.segmentation(model, (PIXELS, MASKS.clamp(0)))
    assert found.value.tolist() == expected.value.tolist()
    assert found.data == "Dataset (given)"


def test_a_limit_takes_items_from_all_over_a_dataset() -> None:
    some = vs.data.tasks.tensors.with_masks(Pictures(), limit=3)
    assert [some.name(place) for place in range(len(some))] == [
        f"image {k} of the Dataset" for k in (0, 2, 4)
    ]
    assert (np.stack([some.target(k) for k in range(3)]) == MASKS[::2].numpy()).all()


def test_datasets_of_labels_stay_what_they_are() -> None:
    class Labels(Items):
        def __getitem__(self, index: int) -> tuple[Any, Any]:
            return DATA.picture(index), index

    labels = Labels()
    assert vs.data.tasks.tensors.with_masks(labels) is labels


def test_a_loader_draws_what_it_would_have_drawn() -> None:
    torch.manual_seed(3)
    vs.exams.segmentation(SmallSegmenter().eval(), DataLoader(Items(), batch_size=4))
    labels = [(torch.zeros(3, 32, 32), 0)] * 2
    state = torch.random.get_rng_state()
    vs.data.tasks.tensors.with_masks(DataLoader(labels, batch_size=2))  # type: ignore[arg-type]
    assert torch.equal(state, torch.random.get_rng_state())


def test_what_cannot_be_taken_is_told() -> None:
    model = SmallSegmenter().eval()
    with pytest.raises(
        BadData, match=r"masks are torch.int64 \(6, 16, 32\) for images .*; expected \(6, 32, 32\)"
    ):
        vs.exams.segmentation(model, (prepared(), MASKS[:, :16]))
    with pytest.raises(BadData, match=r"masks are torch.float32 .*; expected whole numbers"):
        vs.exams.segmentation(model, (prepared(), MASKS.float()))
    with pytest.raises(BadData, match=r"hold numbers from -2 to .*masks\[masks == 255\] = -1"):
        vs.exams.segmentation(model, (prepared(), MASKS - 1))
    with pytest.raises(BadData, match=r"pixels of class 255, the model has outputs 0 to 2"):
        vs.exams.segmentation(model, (prepared(), MASKS.where(MASKS >= 0, 255)))
    with pytest.raises(BadData, match=r"holds float images.* give images as uint8, or data by name"):
        vs.exams.segmentation(model, (prepared(), MASKS), window=1.0)
    with pytest.raises(BadData, match=r"holds float images"):
        vs.exams.hessian(model, (prepared(), MASKS), batch_size=4, batches=1, k=1)
    with pytest.raises(BadData, match=r"in Python also tensors \(images, masks\)"):
        vs.exams.segmentation(model, (prepared(), torch.zeros(COUNT, dtype=torch.long)))
    with pytest.raises(BadData, match=r"tensors and DataLoaders are taken with labels or masks alone"):
        vs.exams.detection(SmallDetector().eval(), (prepared(), MASKS[:, 0, 0]))
    with pytest.raises(BadData, match=r"in which no picture has a class of its own"):
        vs.exams.prediction(model, (prepared(), MASKS))


def test_a_limit_is_for_exams() -> None:
    with pytest.raises(BadArgument, match="limit"):
        vs.load_data("fashion", limit=5)  # type: ignore[call-arg]
