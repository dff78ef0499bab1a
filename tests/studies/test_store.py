"""What is damaged in a store counts as not done, and is said; it is never taken as done."""

import shutil
import warnings
from pathlib import Path

import pytest

import vitscope as vs
from tests.exams.factories import small_transformer
from vitscope.core.errors import BadResult
from vitscope.studies import Job, execute
from vitscope.studies.store import WEIGHTS, Store

KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one training that is done."""
    store = Store(tmp_path_factory.mktemp("made"))
    folder = store.job_folder("train", KEY)
    execute(Job("tests.studies.functions:add", {"a": 1, "b": 2}, folder))
    vs.save_model(small_transformer(), folder)
    (folder / "metrics.csv").write_text("epoch,accuracy,seconds\n1,0.5,3\n")
    store.keep_training(KEY, {"parameters": 10})
    return store.path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    shutil.copytree(made, tmp_path / "store")
    return Store(tmp_path / "store")


def test_what_is_whole_is_done(store: Store) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.has_model("train", KEY)
        assert store.has_training(KEY)
    assert store.training(KEY)["seconds"] == 3


def test_what_is_not_there_is_not_done(store: Store) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not store.has_model("operate", KEY)
        assert not store.has_training(KEY[::-1])
        store.forget_outcome("train", KEY)
        assert not store.has_model("train", KEY)


@pytest.mark.parametrize(
    "file", [f"train/{KEY}/job/result.json", f"train/{KEY}/{WEIGHTS}", f"train/{KEY}/config.json"]
)
@pytest.mark.parametrize("damage", ["cut short", "empty", "other bytes"])
def test_a_damaged_model_is_made_again(store: Store, file: str, damage: str) -> None:
    spoil(store.path / file, damage)
    with pytest.warns(UserWarning, match=r"damaged.*; it is done again"):
        assert not store.has_model("train", KEY)


@pytest.mark.parametrize("damage", ["cut short", "empty", "other bytes"])
def test_a_damaged_record_of_a_training_is_made_again(store: Store, damage: str) -> None:
    spoil(store.path / "trainings" / f"{KEY}.json", damage)
    with pytest.warns(UserWarning, match=r"damaged.*; it is done again"):
        assert not store.has_training(KEY)


def test_a_newer_record_is_not_made_again(store: Store) -> None:
    (store.path / "trainings" / f"{KEY}.json").write_text('{"schema": 2}')
    with pytest.raises(BadResult, match="pip install -U vitscope"):
        store.has_training(KEY)


def spoil(path: Path, damage: str) -> None:
    whole = path.read_bytes()
    path.write_bytes(
        {"cut short": whole[: len(whole) // 2], "empty": b"", "other bytes": b"\xff" * 50}[damage]
    )
