"""`vqa:PATH`: questions about pictures in VQAv2's layout.

    PATH/v2_OpenEnded_mscoco_train2014_questions.json    PATH/v2_mscoco_train2014_annotations.json
    PATH/train2014/COCO_train2014_000000000009.jpg       and the same for val2014, which "test" is content with

The answers to choose from are ViLT's: the most frequent answer of at least 9 questions of train and val (3,129 of
VQAv2's), in the order of their appearance. `PATH/answers.txt`, one per line, counts for more: a model that knows its
own answers needs them in its own order.

A question none of whose answers can be chosen teaches nothing and is left out of a training, as in ViLT; held-out ones
stay, and nobody can answer them, as in VQA's accuracy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.core.arguments.kinds import shown
from vitscope.core.errors import BadData, warn
from vitscope.data.decode import open_image
from vitscope.data.images import Indices
from vitscope.data.task_data import TaskData, file_facts
from vitscope.data.tasks.answers import normalized, soft_scores, vocabulary
from vitscope.data.tasks.json_files import Record, by_id, read_json, text, whole_number
from vitscope.data.tasks.masks import folder_of
from vitscope.data.tasks.numbering import read_lines

ANSWERS = "answers.txt"
_FOLDERS = {"train": "train2014", "val": "val2014", "validation": "val2014", "test": "val2014"}
_BELOW = (".", "annotations", "questions", "vqa")


@dataclass(frozen=True, eq=False)
class Question:
    """One question, and how right the answers are that can be chosen."""

    question_id: int
    image_id: int
    words: str
    scores: Mapping[int, float]  # by the number of an answer


@dataclass(frozen=True, eq=False)
class VqaReader:
    """Questions from a list, pictures in files."""

    files: Sequence[str]  # where questions and answers came from
    questions: Sequence[Question]
    pictures: Mapping[int, str]  # by image id
    n_answers: int

    parallel = True

    def __len__(self) -> int:
        return len(self.questions)

    def picture(self, index: int) -> Image.Image:
        """See `TaskReader`."""
        return open_image(self.pictures[self.questions[index].image_id]).convert("RGB")

    def picture_number(self, index: int) -> int:
        """Which picture a question is about."""
        return self.questions[index].image_id

    def question(self, index: int) -> str:
        """The question."""
        return self.questions[index].words

    def target(self, index: int) -> npt.NDArray[np.float32]:
        """See `TaskReader`."""
        scores = np.zeros(self.n_answers, np.float32)
        for answer, score in self.questions[index].scores.items():
            scores[answer] = score
        return scores

    def name(self, index: int) -> str:
        """See `TaskReader`."""
        question = self.questions[index]
        return f"question {question.question_id} about {self.pictures[question.image_id]}"

    def check(self, index: int) -> bool:
        """See `TaskReader`; everything but the pictures is known once the files are read."""
        return bool(self.questions[index].scores)

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        images = dict.fromkeys(self.questions[i].image_id for i in places)
        return file_facts([*self.files, *(self.pictures[image] for image in images)])


def open_vqa(path: str, split: str, check: bool = True) -> TaskData:
    """VQAv2's questions; see the head of this file."""
    root = folder_of(path, "vqa", "VQAv2's questions, annotations and pictures")
    if split not in _FOLDERS:
        raise BadData(f"vqa:{path} has no split '{split}'; it has train and val")
    folder = _FOLDERS[split]
    asked_in = _find(root, f"v2_OpenEnded_mscoco_{folder}_questions.json")
    answered_in = _find(root, f"v2_mscoco_{folder}_annotations.json")
    asked = by_id(
        read_json(asked_in, ("questions",), "VQA's questions")["questions"],
        "question_id",
        asked_in,
        "question",
    )
    answered = _annotations(answered_in)
    if not asked:
        raise BadData(f"{asked_in} holds no questions; expected VQA's questions")
    listed = root / ANSWERS
    answers = _listed_answers(listed) if listed.is_file() else _most_frequent(root)
    place = {answer: k for k, answer in enumerate(answers)}
    questions = [
        _question(number, question, answered, place, (asked_in, answered_in), listed.is_file())
        for number, question in asked.items()
    ]
    if spare := [number for number in answered if number not in asked]:
        raise BadData(
            f"{answered_in}: question {spare[0]} is answered, but not in {asked_in}; expected the same questions"
        )
    questions = _teachable(questions, split, answered_in)
    pictures = _pictures(root / folder, folder, questions, asked_in, check)
    reader = VqaReader(
        (str(asked_in), str(answered_in), str(listed)), tuple(questions), pictures, len(answers)
    )
    return TaskData("vqa", f"vqa:{path}", split, answers, reader)


def _find(root: Path, name: str) -> Path:
    for below in _BELOW:
        if (root / below / name).is_file():
            return root / below / name
    raise BadData(f"there is no file {root / name}; expected VQAv2's questions and annotations")


def _annotations(path: Path) -> dict[int, Record]:
    content = read_json(path, ("annotations",), "VQA's annotations")
    return by_id(content["annotations"], "question_id", path, "question")


def _most_frequent(root: Path) -> list[str]:
    """The answers to choose from, by both annotation files."""
    said = []
    for folder in ("train2014", "val2014"):
        path = _find(root, f"v2_mscoco_{folder}_annotations.json")
        for number, annotation in _annotations(path).items():
            said.append(text(annotation, "multiple_choice_answer", path, f"question {number}"))
    answers = vocabulary(said)
    if len(answers) < 2:
        raise BadData(
            f"{root}: {len(answers)} answers are the most frequent one of at least 9 questions of train and val; "
            f"expected at least 2, or a file {root / ANSWERS} with an answer per line"
        )
    return answers


def _listed_answers(path: Path) -> list[str]:
    answers = read_lines(path)
    for number, answer in enumerate(answers, 1):
        if answer in answers[: number - 1]:
            raise BadData(f"{path}, line {number}: '{answer}' is there twice; expected every answer once")
    if len(answers) < 2:
        raise BadData(f"{path} lists {len(answers)} answers; expected at least 2, one per line")
    return answers


def _question(
    number: int,
    question: Record,
    answered: Mapping[int, Record],
    place: Mapping[str, int],
    files: tuple[Path, Path],
    listed: bool,
) -> Question:
    asked_in, answered_in = files
    what = f"question {number}"
    words = text(question, "question", asked_in, what)
    image_id = whole_number(question, "image_id", asked_in, what)
    if number not in answered:
        raise BadData(
            f"{asked_in}: {what} has no answers in {answered_in}; expected an annotation of this question_id"
        )
    about = whole_number(answered[number], "image_id", answered_in, what)
    if about != image_id:
        raise BadData(
            f"{answered_in}: {what} is about image {about}, in {asked_in} about {image_id}; expected the same"
        )
    given = answered[number].get("answers")
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise BadData(f"{answered_in}: {what} has no answers; expected a list of what people said")
    answers = [text(one, "answer", answered_in, what) for one in given]
    scores: dict[int, float] = {}
    for answer, score in soft_scores(answers).items():
        raw = next((s for s in answers if s in place and normalized(s) == answer), answer)
        if raw in place:
            scores[place[raw]] = score
    if not scores and listed and len(answers) == 1:
        raise BadData(
            f"{answered_in}: {what} has the answer {shown(answers[0])}, which is not in {ANSWERS}; add it there"
        )
    return Question(number, image_id, words, scores)


def _teachable(questions: list[Question], split: str, path: Path) -> list[Question]:
    """Those that have an answer that can be chosen; all of a held-out split."""
    known = [question for question in questions if question.scores]
    if not known:
        raise BadData(
            f"{path}: no question has an answer that can be chosen, the first is question {questions[0].question_id}; "
            f"expected answers of the same kind as in {ANSWERS}"
        )
    if split != "train":
        return questions
    if len(known) < len(questions):
        first = next(question.question_id for question in questions if not question.scores)
        warn(
            f"{path}: {len(questions) - len(known)} of {len(questions)} questions have no answer that can be chosen, "
            f"and are left out; the first is question {first}"
        )
    return known


def _pictures(
    folder: Path, split: str, questions: Sequence[Question], asked_in: Path, check: bool
) -> dict[int, str]:
    if not folder.is_dir():
        raise BadData(f"there is no folder {folder}; expected the pictures that {asked_in} asks about")
    there = {entry.name for entry in folder.iterdir()}
    found = {}
    for question in questions:
        name = f"COCO_{split}_{question.image_id:012d}.jpg"
        if check and name not in there:
            raise BadData(
                f"{asked_in}: question {question.question_id} is about {folder / name}, which is not there; "
                f"expected all of {split}'s pictures"
            )
        found[question.image_id] = str(folder / name)
    return found
