"""Wrong files: YAML of options, recipes and run folders with values of other types, or which are no such files."""

import json
import shutil
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import vitscope as vs
from tests.fuzz.profiles import few, many
from tests.fuzz.refusals import check_message, files_below
from tests.fuzz.wrong_values import allowed, wrong_objects
from vitscope.cli.app import main
from vitscope.cli.diagnose import Options
from vitscope.cli.options import hints_of_options
from vitscope.core.errors import VitscopeError
from vitscope.recipes.recipe import Recipe
from vitscope.training import get_recipe

NO_YAML = [
    "\t- a",
    "a: [",
    "'",
    "%",
    "a: &x *x",
    "a: 1\na: 2",
    "- 1",
    "3",
    "\x00",
    "? [a]\n: b",
    "!!python/object:os.x {}",
]
FREE = (
    "models",
    "data",
    "split",
    "exams",
    "options",
)  # any text is of their type; the command line tests try names


def _plain(value: Any) -> bool:
    try:
        return yaml.safe_load(yaml.safe_dump(value)) is not None
    except (yaml.YAMLError, ValueError):
        return False


def _wrong_in_yaml(hint: Any) -> st.SearchStrategy[Any]:
    """What a YAML file can hold and the type does not allow, read as leniently as YAML is: 1e-3 is a number."""

    def wrong(value: Any) -> bool:
        if not _plain(value) or allowed(value, hint):
            return False
        return not (isinstance(value, str) and _number(value))

    return wrong_objects(hint).filter(wrong)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@st.composite
def wrong_options(draw: st.DrawFn) -> dict[str, Any]:
    hints = {name: hint for name, hint in hints_of_options(Options).items() if name not in FREE}
    name = draw(st.sampled_from(sorted(set(hints) - {"trust_code"})))
    return {"models": ["vit_mini"], "limit": 4, name: draw(_wrong_in_yaml(hints[name]))}


@st.composite
def wrong_recipes(draw: st.DrawFn) -> dict[str, Any]:
    hints = get_type_hints(Recipe, include_extras=True)
    name = draw(st.sampled_from(sorted(set(hints) - {"name"})))
    return {
        "epochs": 2,
        "batch_size": 8,
        "lr": 0.1,
        "warmup_epochs": 0,
        name: draw(_wrong_in_yaml(hints[name])),
    }


def _refused(arguments: list[str], capfd: pytest.CaptureFixture[str], folder: Path, what: object) -> None:
    before = files_below(folder)
    code = main(arguments)
    shown = capfd.readouterr().err
    assert code == 2, f"{what} was accepted ({code}):\n{shown}"
    check_message(shown, what)
    assert files_below(folder) == before


@few(60)
@given(content=wrong_options())
def test_wrong_options_in_a_file(
    content: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(yaml.safe_dump(content))
    _refused(["diagnose", "--config", str(file), "--out", str(tmp_path / "run")], capfd, tmp_path, content)


@few(100)
@given(content=wrong_recipes())
def test_wrong_recipes_in_a_file(content: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(VitscopeError) as refused:
        get_recipe(file)
    check_message(str(refused.value), content)


@few(100)
@given(content=wrong_recipes())
def test_wrong_recipes_in_python(content: dict[str, Any]) -> None:
    with pytest.raises(VitscopeError) as refused:
        get_recipe("mini", **{name: value for name, value in content.items() if value is not None})
    check_message(str(refused.value), content)


@pytest.mark.slow
@many(5000)
@given(content=wrong_recipes())
def test_many_wrong_recipes(content: dict[str, Any], tmp_path: Path) -> None:
    test_wrong_recipes_in_a_file.hypothesis.inner_test(content, tmp_path)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", NO_YAML)
def test_what_is_no_yaml(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(text)
    _refused(["diagnose", "vit_mini", "--config", str(file)], capfd, tmp_path, text)
    _refused(["train", "vit_mini", "--recipe", str(file)], capfd, tmp_path, text)


@pytest.mark.parametrize("kind", ["folder", "bytes", "nothing", "loop", "dangling", "large", "deep"])
def test_what_is_no_file_of_options(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "options.yaml"
    if kind == "folder":
        file.mkdir()
    elif kind == "bytes":
        file.write_bytes(bytes(range(128, 256)))
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "dangling":
        file.symlink_to(tmp_path / "gone")
    elif kind == "large":
        file.write_text("# \n" * 500_000)
    elif kind == "deep":
        file.write_text("a: " + "[" * 1500)
    _refused(["diagnose", "vit_mini", "--config", str(file)], capfd, tmp_path, kind)
    _refused(["train", "vit_mini", "--recipe", str(file)], capfd, tmp_path, kind)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a model and a diagnosis."""
    folder = tmp_path_factory.mktemp("run")
    model = vs.create_model("vit_mini", pretrained=True)
    vs.save_model(model, folder)
    vs.diagnose(model, vs.load_data("fashion"), ["variance"], limit=8, out=folder)
    return folder


FILES = ["config.json", "run.json", "manifest.json", "exams/variance/result.json"]
VERBS_ON_RUNS = [
    ["anatomy"],
    ["report"],
    ["prescribe"],
    ["diagnose", "--exams", "softmax_gradient", "--limit", "4"],
]


@st.composite
def damages(draw: st.DrawFn, depth: int = 0) -> tuple[str, str]:
    """A JSON file of the folder with one value, somewhere inside and at least so deep, of another kind."""
    file = draw(st.sampled_from(FILES))
    path = draw(st.lists(st.integers(0, 6), min_size=depth, max_size=6))
    return file, json.dumps([path, draw(st.sampled_from(ODD))])


ODD: list[Any] = [
    None,
    True,
    -1,
    1e308,
    "",
    "x" * 5000,
    [],
    {},
    [[]],
    {"a": {}},
    "../../etc/passwd",
    "\u0000",
    10**30,
]


def _put(content: Any, path: list[int], value: Any) -> Any:
    """`content` with the value at the end of the path in the place of what was there."""
    if not path or not isinstance(content, dict | list) or not content:
        return value
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    key = keys[path[0] % len(keys)]
    changed = dict(content) if isinstance(content, dict) else list(content)
    changed[key] = _put(content[key], path[1:], value)  # type: ignore[index]
    return changed


def _survives(
    damage: tuple[str, str],
    run: Path,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    verbs: list[list[str]] = VERBS_ON_RUNS,
) -> None:
    """Every verb that reads the folder refuses it in words, or does without what is damaged."""
    name, change = damage
    path, value = json.loads(change)
    copy = folder / "run"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    content = json.loads((copy / name).read_text())
    (copy / name).write_text(json.dumps(_put(content, path, value)))
    for verb, *more in verbs:
        try:
            code: Any = main(
                [verb, str(copy), *more, *(["-o", str(folder / "page.html")] if verb == "report" else [])]
            )
        except SystemExit as stop:
            code = stop.code
        shown = capfd.readouterr().err
        assert code in (0, 2), f"{verb} after {damage}: {code}\n{shown}"
        if code == 2:
            check_message(shown, (verb, damage))


@few(10)
@given(damage=damages(depth=1))
def test_damaged_run_folders(
    damage: tuple[str, str], whole_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _survives(damage, whole_run, tmp_path, capfd, VERBS_ON_RUNS[:3])


@pytest.mark.parametrize("name", FILES)
def test_damaged_run_folders_are_examined_or_refused(
    name: str, whole_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Which takes longest: a value at the top and one below, the others with the slow tests."""
    for path, value in (([], []), ([1, 1], {"a": {}})):
        _survives((name, json.dumps([path, value])), whole_run, tmp_path, capfd, VERBS_ON_RUNS[3:])


@pytest.mark.slow
@many(300)
@given(damage=damages())
def test_many_damaged_run_folders(
    damage: tuple[str, str], whole_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _survives(damage, whole_run, tmp_path, capfd)
