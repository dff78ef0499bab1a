"""Questions in VQAv2's layout, and the answers that can be chosen."""

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.tasks.test_masks import save_picture
from vitscope.core.errors import BadData
from vitscope.data import TaskData, load_data
from vitscope.data.tasks.answers import normalized, soft_scores, vocabulary

TRAIN, VAL = "train2014", "val2014"
Parts = dict[str, dict[str, Any]]


def asked(n: int, folder: str, answers: Callable[[int], list[str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Questions 10, 11 ... about images 0, 0, 1, 1 ..., and their annotations."""
    numbers = range(10, 10 + n)
    questions = [{"question_id": k, "image_id": (k - 10) // 2, "question": f"What is {k}?"} for k in numbers]
    annotations = [
        {
            "question_id": k,
            "image_id": (k - 10) // 2,
            "multiple_choice_answer": max(answers(k), key=answers(k).count),
            "answers": [{"answer": a, "answer_id": i + 1} for i, a in enumerate(answers(k))],
        }
        for k in numbers
    ]
    return {"questions": questions}, {"annotations": annotations}


def people(k: int) -> list[str]:
    """Ten answers: "yes" for even questions, "two dogs" for odd ones, with some others among them."""
    most = "yes" if k % 2 == 0 else "two dogs"
    return [most] * (4 + k % 3) + ["The cat."] * 2 + ["no"] * (4 - k % 3)


def content() -> Parts:
    train, val = asked(20, TRAIN, people), asked(4, VAL, people)
    names = [
        (f"v2_OpenEnded_mscoco_{f}_questions.json", f"v2_mscoco_{f}_annotations.json") for f in (TRAIN, VAL)
    ]
    return {
        name: part
        for both, parts in zip(names, (train, val), strict=True)
        for name, part in zip(both, parts, strict=True)
    }


ASKED, ANSWERED = list(content())[:2]


def write(root: Path, parts: Parts) -> Path:
    for name, part in parts.items():
        (root / name).write_text(json.dumps(part))
    for folder, n in ((TRAIN, 10), (VAL, 2)):
        for k in range(n):
            save_picture(root / folder / f"COCO_{folder}_{k:012d}.jpg", k)
    return root


def opened(root: Path, split: str = "train") -> TaskData:
    data = load_data(f"vqa:{root}", split)
    assert isinstance(data, TaskData)
    return data


def official(answer: str, given: list[str]) -> float:
    """VQA's accuracy as it is defined, in plain lines."""
    nines = [list(nine) for nine in combinations(given, len(given) - 1)]
    return sum(min(1.0, nine.count(answer) / 3) for nine in nines) / len(nines)


def test_scores_are_the_official_accuracy_of_each_answer(tmp_path: Path) -> None:
    data = opened(write(tmp_path, content()))
    assert (data.task, len(data), data.classes) == ("vqa", 20, ("yes", "2 dogs"))
    for i in range(20):
        (picture, question), scores = data[i]
        assert question == f"What is {10 + i}?"
        assert picture.mode == "RGB"
        assert data.name(i).endswith(f"COCO_train2014_{i // 2:012d}.jpg")
        said = ["2 dogs" if a == "two dogs" else a for a in people(10 + i)]
        assert scores == pytest.approx([official(a, said) for a in data.classes], abs=1e-6)
    assert data.check() is data
    assert [len(opened(tmp_path, split)) for split in ("val", "test")] == [4, 4]


def test_for_ten_people_the_score_is_the_average_over_nine_of_them() -> None:
    for k in range(11):
        given = ["yes"] * k + [f"other{i}" for i in range(10 - k)]
        assert soft_scores(given).get("yes", 0.0) == pytest.approx(official("yes", given))
    assert soft_scores(["red"]) == {"red": 1.0}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The dog", "dog"),
        ("Two", "2"),
        ("none", "0"),
        ("dont know", "don't know"),
        ("couldntve", "couldntve"),
        ("couldnt've", "couldn't've"),
        ("y'alld've", "y'all'd've"),
        ("1,000", "1000"),
        ("a red-and-white bus", "red and white bus"),
        ("yes, sir", "yes sir"),
        ("black/white", "black white"),
        ("st. louis", "st louis"),
        ("2.5", "2.5"),
        ("5 p.m.", "5 pm"),
        ("  an  APPLE\n", "apple"),
        ("what?", "what"),
        ("it's", "it's"),
    ],
)
def test_answers_are_made_comparable_as_in_the_official_evaluation(answer: str, expected: str) -> None:
    assert normalized(answer) == expected


def test_the_vocabulary_holds_what_nine_questions_agree_on() -> None:
    said = ["b"] * 9 + ["the a"] * 8 + ["one"] * 5 + ["1"] * 4 + ["A dog", "dog!"] * 5
    assert vocabulary(said) == ["b", "1", "dog"]


def test_listed_answers_count_for_more(tmp_path: Path) -> None:
    write(tmp_path, content())
    (tmp_path / "answers.txt").write_text("no\n2 dogs\ncat\nnever said\nyes\n")
    data = opened(tmp_path)
    assert data.classes == ("no", "2 dogs", "cat", "never said", "yes")
    assert data.target(0).tolist() == pytest.approx([0.9, 0.0, 0.6, 0.0, 1.0])  # 3 no, 2 cat, 5 yes
    (tmp_path / "v2_mscoco_val2014_annotations.json").unlink()
    assert len(opened(tmp_path)) == 20  # the other file is not needed
    for wrong, said in (
        ("yes\nno\nyes\n", r"answers\.txt, line 3: 'yes' is there twice"),
        ("yes\n", "lists 1 answers"),
    ):
        (tmp_path / "answers.txt").write_text(wrong)
        with pytest.raises(BadData, match=said):
            opened(tmp_path)


def test_questions_that_nobody_can_answer(tmp_path: Path) -> None:
    write(tmp_path, content())
    (tmp_path / "answers.txt").write_text("2 dogs\nanything\n")
    with pytest.warns(
        UserWarning, match="10 of 20 questions have no answer that can be chosen, .* first is question 10"
    ):
        data = opened(tmp_path)
    assert [data.question(i) for i in (0, 9)] == ["What is 11?", "What is 29?"]
    held_out = opened(tmp_path, "val")
    assert len(held_out) == 4
    assert held_out.target(0).tolist() == [0.0, 0.0]
    (tmp_path / "answers.txt").write_text("something\nanything\n")
    with pytest.raises(
        BadData, match="no question has an answer that can be chosen, the first is question 10"
    ):
        opened(tmp_path)
    single = content()
    single[ANSWERED]["annotations"][3]["answers"] = [{"answer": "a purple cat"}]
    write(tmp_path, single)
    (tmp_path / "answers.txt").write_text("yes\n2 dogs\n")
    with pytest.raises(
        BadData,
        match=r"train2014_annotations\.json: question 13 has the answer 'a purple cat', which is not in",
    ):
        opened(tmp_path)


def test_a_share_is_one_of_pictures(tmp_path: Path) -> None:
    part = opened(write(tmp_path, content())).fraction(0.5, seed=1)
    numbers = [int(part.question(i).split()[-1].rstrip("?")) for i in range(len(part))]
    assert len(numbers) == 10
    assert {k + 1 for k in numbers if k % 2 == 0} == {k for k in numbers if k % 2}


Change = Callable[[Parts], object]
WRONG: dict[str, tuple[Change, str]] = {
    "no answers": (
        lambda c: c[ANSWERED]["annotations"].pop(3),
        r"questions\.json: question 13 has no answers in",
    ),
    "empty answers": (
        lambda c: c[ANSWERED]["annotations"][3].update(answers=[]),
        r"annotations\.json: question 13 has no answers",
    ),
    "an empty answer": (
        lambda c: c[ANSWERED]["annotations"][3].update(answers=[{"answer": " "}]),
        r"question 13 has answer ' '",
    ),
    "no question": (lambda c: c[ASKED]["questions"].pop(3), r"question 13 is answered, but not in"),
    "no words": (
        lambda c: c[ASKED]["questions"][3].update(question=""),
        r"questions\.json: question 13 has question ''",
    ),
    "twice": (lambda c: c[ASKED]["questions"][3].update(question_id=10), r"question 10 is there twice"),
    "another image": (
        lambda c: c[ANSWERED]["annotations"][3].update(image_id=7),
        r"question 13 is about image 7, in .* about 1",
    ),
    "no picture": (
        lambda c: [
            c[part][key][3].update(image_id=77)
            for part, key in ((ASKED, "questions"), (ANSWERED, "annotations"))
        ],
        r"question 13 is about .*COCO_train2014_000000000077\.jpg, which is not there",
    ),
    "nothing": (lambda c: c.update({ASKED: {"questions": []}}), "holds no questions"),
    "no list": (lambda c: c.update({ANSWERED: {"questions": []}}), "has no list 'annotations' of objects"),
    "no agreement": (
        lambda c: [a.update(multiple_choice_answer=str(i)) for i, a in enumerate(c[ANSWERED]["annotations"])],
        r"0 answers are the most frequent one of at least 9 questions .* or a file .*answers\.txt",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_when_the_files_are_opened(tmp_path: Path, name: str) -> None:
    change, said = WRONG[name]
    parts = content()
    change(parts)
    write(tmp_path, parts)
    with pytest.raises(BadData, match=said):
        opened(tmp_path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"there is no file .*v2_OpenEnded_mscoco_train2014_questions\.json"):
        opened(tmp_path)
    with pytest.raises(BadData, match="has no split 'dev'; it has train and val"):
        opened(tmp_path, "dev")
    write(tmp_path, content())
    (tmp_path / TRAIN).rename(tmp_path / "pictures")
    with pytest.raises(BadData, match=r"there is no folder .*train2014; expected the pictures"):
        opened(tmp_path)
    (tmp_path / ANSWERED).write_text("{")
    with pytest.raises(BadData, match=r"cannot read .*annotations\.json \(it is no JSON from line 1 on\)"):
        opened(tmp_path)


def test_pictures_are_shared_by_their_questions(tmp_path: Path) -> None:
    data = opened(write(tmp_path, content()))
    assert np.array_equal(np.asarray(data.picture(2)), np.asarray(data.picture(3)))
    assert not np.array_equal(np.asarray(data.picture(1)), np.asarray(data.picture(2)))
