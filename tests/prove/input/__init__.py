"""Files and arguments that are wrong, generated: refused in one line of our own, or they mean what they say."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import vitscope as vs
from tests.fuzz import test_command_line, test_files, test_python
from tests.prove.input import data_files, odd_cases, pictures, tensors
from tests.prove.input.properties import prop
from tests.prove.record import Finding, Kind
from tests.prove.watched import command, watched


def kinds() -> list[Kind]:
    """What is tried, and how often: by what a case costs."""
    return [
        prop("words", "wrong words to every verb", 1500, test_command_line.wrong_invocations(), _words),
        prop(
            "arguments",
            "wrong arguments to every function and exam",
            3000,
            test_python.wrong_calls(),
            _arguments,
        ),
        prop(
            "operations",
            "wrong arguments to every operation",
            600,
            odd_cases.operations(),
            odd_cases.check_operation,
        ),
        prop("recipes", "recipes with wrong values", 1000, test_files.wrong_recipes(), _recipes),
        prop("options", "files of options with wrong values", 300, test_files.wrong_options(), _options),
        prop("runs", "run folders with damaged files", 150, test_files.damages(), _runs),
        prop("pictures", "image files of every kind, damaged", 1800, pictures.files(), pictures.check_file),
        prop("tensors", "safetensors files with wrong headers", 1500, tensors.files(), tensors.check_file),
        prop(
            "objects",
            "annotations of COCO",
            500,
            data_files.damaged_json(data_files.COCO),
            data_files.check_coco,
        ),
        prop(
            "questions",
            "questions and answers of VQA",
            500,
            data_files.damaged_json(data_files.VQA),
            data_files.check_vqa,
        ),
        prop("masks", "masks and lists of classes", 400, data_files.masks(), data_files.check_masks),
        prop(
            "folders",
            "folders of images and streams with odd names and files",
            500,
            data_files.trees(),
            data_files.check_tree,
        ),
        prop(
            "labels",
            "published labels and lists of classes",
            600,
            data_files.label_files(),
            data_files.check_labels,
        ),
        prop("studies", "study files", 300, data_files.studies(), data_files.check_study),
        prop(
            "exams",
            "every exam on odd models, images and labels",
            700,
            odd_cases.examinations(),
            odd_cases.check_exam,
        ),
    ]


@contextlib.contextmanager
def _place(folder: Path) -> Any:
    """As the tests of the command line have it: nothing of the user's own is near."""
    here, before = Path.cwd(), dict(os.environ)
    os.environ.update(HOME=str(folder), VITSCOPE_DATA=str(folder / "data"), HF_HUB_OFFLINE="1")
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def _refused(words: list[str], folder: Path) -> None:
    code, shown = command(words, folder)
    if code != 2:
        raise Finding(f"{words} was accepted: {shown[-500:]}")


def _words(words: list[str], folder: Path) -> None:
    (folder / "study.yaml").write_text("{name: a, arms: {a: {model: vit_mini}}, exams: {prediction: }}")
    with _place(folder):
        before = sorted(folder.rglob("*"))
        _refused(words, folder)
        if sorted(folder.rglob("*")) != before:
            raise Finding(f"{words} touched files")


def _pytests(check: Callable[..., None], *arguments: Any) -> None:
    """What the tests of `tests/fuzz` check, as a `Finding`."""
    try:
        check(*arguments)
    except (AssertionError, pytest.fail.Exception) as error:
        raise Finding(str(error)) from None


def _arguments(call: tuple[str, str, Any], folder: Path) -> None:
    watched(lambda: _pytests(test_python._refused, call), folder, call)


def _recipes(content: dict[str, Any], folder: Path) -> None:
    check: Any = test_files.test_wrong_recipes_in_a_file
    watched(lambda: _pytests(check.hypothesis.inner_test, content, folder), folder, content)


def _options(content: dict[str, Any], folder: Path) -> None:
    (folder / "options.yaml").write_text(yaml.safe_dump(content))
    _refused(["diagnose", "--config", str(folder / "options.yaml"), "--out", str(folder / "run")], folder)


_run: list[tempfile.TemporaryDirectory[str]] = []


def _runs(damage: tuple[str, str], folder: Path) -> None:
    if not _run:
        _run.append(tempfile.TemporaryDirectory(prefix="input-"))
        model = vs.create_model("vit_mini", pretrained=True)
        vs.save_model(model, _run[0].name)
        vs.diagnose(model, vs.load_data("fashion"), ["variance"], limit=8, out=_run[0].name)
    name, change = damage
    path, value = json.loads(change)
    copy = shutil.copytree(_run[0].name, folder / "run")
    content = json.loads((copy / name).read_text())
    (copy / name).write_text(json.dumps(test_files._put(content, path, value)))
    with _place(folder):
        for verb, *more in test_files.VERBS_ON_RUNS:
            page = ["-o", str(folder / "page.html")] if verb == "report" else []
            command([verb, str(copy), *more, *page], folder)
