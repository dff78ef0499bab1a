from pathlib import Path

import numpy as np
import pytest

import vitscope
from vitscope.core.errors import BadArgument, BadData
from vitscope.data import load_data


def test_the_public_name() -> None:
    assert vitscope.load_data is load_data


def test_the_embedded_set_needs_nothing() -> None:
    sizes = {split: len(load_data("fashion", split)) for split in ("train", "test")}
    assert sizes == {"train": 6000, "test": 2000}
    data = load_data("fashion")
    assert (data.spec, data.split, data.classes[9]) == ("fashion", "test", "Ankle boot")


def test_fraction_and_seed() -> None:
    small = load_data("fashion", "train", fraction=0.06, seed=7)
    assert np.bincount(small.labels).tolist() == [36] * 10
    assert (small.positions == load_data("fashion", "train", fraction=0.06, seed=7).positions).all()
    assert (small.positions != load_data("fashion", "train", fraction=0.06, seed=8).positions).any()


def test_fraction_that_empties_a_class() -> None:
    with pytest.raises(
        BadData, match=r"leaves class 'T-shirt/top' \(200 images\) empty; use .* at least 0\.0025"
    ):
        load_data("fashion", fraction=0.001)
    assert len(load_data("fashion", fraction=0.0025)) == 10


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifar", "did you mean 'cifar10'?"),
        ("fashon", "did you mean 'fashion'?"),
        ("/data/images", "write folder:PATH"),
        (
            "imagenet",
            "there are fashion, fashion-full, cifar10, cifar100, coral, coral-objects, coral-stream, trees, easy-vqa, "
            "folder:PATH, frames:PATH, timm:PREFIX/NAME, masks:PATH, ade20k:PATH",
        ),
        ("", "no data set ''"),
    ],
)
def test_unknown_names(spec: str, message: str) -> None:
    with pytest.raises(BadData) as caught:
        load_data(spec)
    assert message in str(caught.value)


@pytest.mark.parametrize("split", ["val", "tset", ""])
def test_wrong_split(split: str) -> None:
    with pytest.raises(BadData, match=f"fashion has no split '{split}'; it has train and test"):
        load_data("fashion", split)


def test_not_prepared_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path))
    for name in ("cifar10", "cifar100", "fashion-full"):
        with pytest.raises(BadData, match=f"type: vitscope data prepare {name}$"):
            load_data(name)


def test_a_limit_is_for_exams() -> None:
    with pytest.raises(BadArgument) as refused:
        load_data("fashion", limit=10)  # type: ignore[call-arg]
    assert str(refused.value) == (
        "load_data(): no argument 'limit'; it takes spec, split, fraction, seed, check, skip_broken; "
        "exams take a limit, as in vs.diagnose(model, data, limit=100)"
    )
