"""`easy-vqa` in its package's layout, made small."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.data.tasks.test_masks import save_picture
from vitscope.core.errors import BadData
from vitscope.data import TaskData, catalog, fetch, load_data
from vitscope.data.catalog import CATALOG
from vitscope.data.prepare import prepare
from vitscope.data.tasks import easy_vqa

ROWS = {
    "train": [
        ["what is the red shape?", "triangle", 0],
        ["is there a circle?", "no", 1],
        ["what color is it?", "teal", 1],
    ],
    "test": [["is there a red shape?", "yes", 0]],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "easy_vqa" / "data"
    for split, rows in ROWS.items():
        for k in {row[2] for row in rows}:
            save_picture(root / split / "images" / f"{k}.png", k, (64, 64))
        (root / split / "questions.json").write_text(json.dumps(rows))
    (root / "answers.txt").write_text("\n".join(CATALOG["easy-vqa"].classes))
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "cache"))
    monkeypatch.setitem(catalog.CATALOG, "easy-vqa", replace(CATALOG["easy-vqa"], train=3, test=1))
    seen = {}
    monkeypatch.setattr(
        easy_vqa, "check_digest", lambda content, _, what: seen.update({what.name: fetch.digest(content)})
    )
    easy_vqa.read_easy_vqa(tmp_path)
    monkeypatch.setattr(easy_vqa, "check_digest", fetch.check_digest)
    monkeypatch.setattr(easy_vqa, "DIGESTS", seen)
    return root


def test_from_the_package_to_load_data(files: Path) -> None:
    prepare("easy-vqa", files, print)
    data = load_data("easy-vqa", "train")
    assert isinstance(data, TaskData)
    assert (data.task, len(data), len(data.classes)) == ("vqa", 3, 13)
    for i, (words, answer, picture) in enumerate(ROWS["train"]):
        (shown, question), scores = data[i]
        assert question == words
        assert scores.tolist() == [float(name == answer) for name in data.classes]
        assert shown.size == (64, 64)
        assert np.array_equal(np.asarray(shown), np.asarray(data.reader.images[picture]))
    assert len(load_data("easy-vqa", "test")) == 1


def test_other_files_are_refused(files: Path) -> None:
    rows = json.loads((files / "train" / "questions.json").read_text())
    for wrong, said in (
        (
            [*rows, ["what?", "purple", 1]],
            r"train/questions\.json: question 3 has the answer 'purple', which is not in",
        ),
        ([*rows, ["what?", "red", 1]], r"train is not the published file"),
        ([["what?"]], r"cannot read .*questions\.json"),
        ([["what?", "red", 5]], r"images/2\.png does not exist"),
    ):
        (files / "train" / "questions.json").write_text(json.dumps(wrong))
        with pytest.raises(BadData, match=said):
            prepare("easy-vqa", files, print)
    (files / "answers.txt").write_text("yes\nno\n")
    with pytest.raises(BadData, match=r"answers\.txt lists yes, no; expected circle, green"):
        prepare("easy-vqa", files, print)
