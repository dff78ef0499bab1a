"""Exams of a study on images whose labels are published in a form of their own."""

import json
from pathlib import Path

import pytest

import vitscope as vs
from vitscope.core.errors import BadArgument, BadData
from vitscope.studies.graph import plan_study
from vitscope.studies.images import Part
from vitscope.studies.store import Store
from vitscope.studies.study import Study

CLASSES = (9, 1, 2)  # of Fashion-MNIST; their folders sort as 1, 2, 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Garments in folders named by the numbers of their classes, as in ImageNet-V2."""
    root = tmp_path_factory.mktemp("garments")
    data = vs.load_data("fashion", split="test")
    for place in range(150):
        picture, label = data[place]
        if label in CLASSES:
            (root / str(label)).mkdir(exist_ok=True)
            picture.save(root / str(label) / f"x_{place + 1:08d}.png")
    return root


def a_study(folder: Path, **look: str) -> Study:
    content = {
        "name": "labels",
        "arms": {"vit": {"model": "vit_mini", "train": False, "seeds": 1}},
        "exams": {"as_published": {"exam": "prediction", "data": f"folder:{folder}", **look}},
    }
    return Study.from_plain(content, "a test")


def accuracy(study: Study, out: Path) -> float:
    found = vs.study(study, out / "study", out / "store", engine="here", progress=False)
    table = found.table()
    rows = table[(table["quantity"] == "accuracy") & (table["seed"] == 0)]
    return float(rows["value"].iloc[0])


def test_labels_are_those_of_an_evaluation(folder: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="only if label k is output k"):
        by_order = accuracy(a_study(folder), tmp_path / "a")
    by_number = accuracy(a_study(folder, labels="numeric"), tmp_path / "b")
    among = accuracy(a_study(folder, labels="numeric", classes="present"), tmp_path / "c")
    assert by_order < 0.5 < by_number <= among
    for found, said in ((by_number, {}), (among, {"classes": "present"})):
        reference = vs.evaluate("vit_mini", f"folder:{folder}", ["prediction"], labels="numeric", **said)
        assert found == reference.results["vit_mini"]["prediction"].accuracy


def test_an_exam_is_known_by_its_labels_and_by_what_the_file_with_them_says(
    folder: Path, tmp_path: Path
) -> None:
    def key(**look: str) -> str:
        plan = plan_study(a_study(folder, **look), Store(tmp_path))
        return plan.looks["vit", 0, "as_published"][0]

    real = tmp_path / "real.json"
    keys = [key(), key(labels="numeric"), key(labels="numeric", classes="present")]
    for label in (0, 1):
        real.write_text(json.dumps([[label]] * 150))
        keys.append(key(labels=f"real:{real}"))
    assert len(set(keys)) == 5
    assert key() == keys[0]


def test_labels_that_do_not_fit_are_refused_by_the_exam(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match=r"exam as_published: .*class '1' is no class of ImageNet-1k"):
        plan_study(a_study(folder, labels="imagenet"), Store(tmp_path))
    with pytest.raises(BadData, match="no labels 'numbers'"):
        Part(f"folder:{folder}", "test", labels="numbers").load()
