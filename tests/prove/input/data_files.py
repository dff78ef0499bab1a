"""Files of data: annotations of objects, questions, masks, lists of classes and labels, folders with odd names."""

import functools
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies as st
from PIL import Image

from tests.prove.input.pictures import pixels
from tests.prove.record import Finding
from tests.prove.tiny import make_data
from tests.prove.watched import watched
from vitscope.data import ImageData, load_data, relabel
from vitscope.studies.graph import plan_study
from vitscope.studies.store import Store
from vitscope.studies.study import Study

ODD: list[Any] = [
    None, True, False, -1, 0, 1, 2.5, 1e308, -0.0, 10**30, "", "x", "x" * 3000, [], {}, [[]], {"a": {}}, "\0",
    "../../../etc/passwd", "/etc/passwd", float("nan"), float("inf"), [1, 2, 3, 4], "1", ["a"], [None], "²",
]  # fmt: skip
_kept: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def base() -> Path:
    """The tiny data, which cases change a copy of."""
    _kept.append(tempfile.TemporaryDirectory(prefix="input-"))
    make_data(Path(_kept[-1].name))
    return Path(_kept[-1].name)


def put(content: Any, path: list[int], value: Any, remove: bool = False) -> Any:
    """`content` with a value, or nothing, in the place of what is at the end of the path."""
    if not path or not isinstance(content, dict | list) or not content:
        return value
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    key, changed = keys[path[0] % len(keys)], content.copy()
    if len(path) == 1 and remove:
        del changed[key]
    else:
        changed[key] = put(content[key], path[1:], value, remove)
    return changed


def changes(most: int = 3) -> st.SearchStrategy[list[tuple[list[int], Any, bool]]]:
    """A few places in a JSON file, and what is there instead."""
    number = st.one_of(st.sampled_from(ODD), st.integers(-50, 50), st.floats(-50, 50))
    one = st.tuples(st.lists(st.integers(0, 9), max_size=5), number, st.booleans())
    return st.lists(one, min_size=1, max_size=most)


@st.composite
def damaged_json(draw: st.DrawFn, files: tuple[str, ...]) -> tuple[str, bytes]:
    """One of the files, changed: other values, or other bytes."""
    name = draw(st.sampled_from(files))
    content = json.loads((base() / name).read_bytes())
    for path, value, remove in draw(changes()):
        content = put(content, path, value, remove)
    text = json.dumps(content).encode()
    if draw(st.integers(0, 7)) == 0:
        text = draw(
            st.sampled_from([b"", text[: len(text) // 2], b"\xff\xfe" + text, b"[" * 100_000, b"{}", b"[]"])
        )
    return name, text


COCO = tuple(f"coco/annotations/instances_{split}.json" for split in ("train", "val"))
VQA = tuple(
    f"vqa/v2_{name}.json"
    for split in ("train2014", "val2014")
    for name in (f"OpenEnded_mscoco_{split}_questions", f"mscoco_{split}_annotations")
)


def _opened(kind: str, case: tuple[str, bytes], folder: Path, split: str) -> Any:
    """The data with the changed file, every item of which is read; None if it was refused."""
    shutil.copytree(base() / kind, folder / kind)
    name, content = case
    (folder / name).write_bytes(content)

    def all_of_it() -> Any:
        data = load_data(f"{kind}:{folder / kind}", split=split).check(show=False)
        return data, [data[index] for index in range(len(data))]

    return watched(all_of_it, folder, (name, content[:1500])).value


def check_coco(case: tuple[str, bytes], folder: Path) -> None:
    """Refused, or boxes inside their pictures, with classes that there are."""
    opened = _opened("coco", case, folder, "train" if "train" in case[0] else "val")
    for picture, objects in opened[1] if opened is not None else []:
        width, height = picture.size
        inside = (objects.boxes >= 0).all() and (objects.boxes <= [width, height, width, height]).all()
        known = ((objects.labels >= 0) & (objects.labels < len(opened[0].classes))).all()
        if not (inside and known and np.isfinite(objects.areas).all() and (objects.areas >= 0).all()):
            raise Finding(f"accepted: {objects} of {case}")
        if objects.masks is not None and objects.masks.shape[1:] != (height, width):
            raise Finding(f"masks of {objects.masks.shape} for {picture.size}: {case}")


def check_vqa(case: tuple[str, bytes], folder: Path) -> None:
    """Refused, or questions with answers between wrong and right."""
    opened = _opened("vqa", case, folder, "train" if "train" in case[0] else "val")
    for (_, question), scores in opened[1] if opened is not None else []:
        if not question.strip() or not ((scores >= 0) & (scores <= 1)).all() or len(scores) != 2:
            raise Finding(f"accepted: {question!r}, {scores} of {case}")


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["nothing", "one", "two", "0 0 0 void", "1 2 3 tree", "300 0 0 x", "², 3", "", "a\tb", "٣ ٤ ٥ x"]
        ),
        st.text(max_size=8),
    ),
    max_size=6,
)


@st.composite
def masks(draw: st.DrawFn) -> dict[str, Any]:
    """A mask of some mode, size and values, and a list of classes."""
    encoded = (
        draw(LINES.map("\n".join).map(str.encode)) if draw(st.booleans()) else draw(st.binary(max_size=30))
    )
    return {
        "mode": draw(st.sampled_from(["L", "P", "1", "I;16", "I", "RGB", "RGBA", "LA", "F", "CMYK"])),
        "size": draw(st.sampled_from([(32, 32), (32, 32), (1, 1), (31, 32), (32, 64)])),
        "values": draw(st.sampled_from([[0], [0, 1, 2], [2, 3], [255], [7], [0, 255], [-1, 70000]])),
        "classes": draw(
            st.sampled_from([None, b"nothing\none\ntwo\n", b"0 0 0 void\n1 1 1 a\n2 2 2 b\n", encoded])
        ),
        "format": draw(st.sampled_from([".png", ".png", ".tif", ".jpg"])),
    }


def check_masks(case: dict[str, Any], folder: Path) -> None:
    """Refused, or a class that there is for each pixel of the picture."""
    root = shutil.copytree(base() / "masks", folder / "masks")
    mask = root / "train" / "masks" / "3.png"
    mask.unlink()
    draw = np.random.default_rng(0)
    width, height = case["size"]
    values = draw.choice(case["values"], (height, width))
    mode = case["mode"]
    if mode in ("L", "P", "I", "I;16", "F"):
        kinds = {"I": np.int32, "I;16": np.uint16, "F": np.float32}
        picture = Image.fromarray(values.astype(kinds.get(mode, np.uint8)))
        if mode == "P":
            picture.putpalette(list(range(256)) * 3)
    else:
        picture = pixels(mode, width, height, draw, False)
    try:
        picture.save(mask.with_suffix(case["format"]))
    except (OSError, ValueError):  # no such file exists
        return
    (root / "classes.txt").unlink()
    if case["classes"] is not None:
        (root / "classes.txt").write_bytes(case["classes"])

    def all_of_it() -> Any:
        data = load_data(f"masks:{root}", split="train").check(show=False)
        return data, [data[index] for index in range(len(data))]

    opened = watched(all_of_it, folder, case).value
    for picture, target in opened[1] if opened is not None else []:
        if target.shape != picture.size[::-1] or target.min() < -1 or target.max() >= len(opened[0].classes):
            raise Finding(f"accepted: {np.unique(target)} of {len(opened[0].classes)} classes, {case}")


NAMES = st.one_of(
    st.sampled_from(
        [
            "a",
            "b",
            "10",
            "2",
            "²",
            "1²",
            "٣",
            "x" * 200,
            "a b",
            "ü",
            ".hidden",
            "train",
            "test",
            "val",
            "masks",
        ]
    ),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=6),
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 250)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """Folders with odd names, pictures, links and other things in them."""
    entry = st.sampled_from(
        ["picture", "picture", "picture", "empty", "text", "folder", "dangling", "loop", "pipe", "up"]
    )
    folders = draw(st.lists(st.tuples(NAMES, st.lists(st.tuples(NAMES, entry), max_size=4)), max_size=4))
    return {
        "kind": draw(st.sampled_from(["folder", "frames", "frames-lines"])),
        "split": draw(st.sampled_from(["train", "test", "val"])),
        "folders": folders,
        "lines": draw(LINES.map("\n".join).map(str.encode)),
        "classes": draw(st.sampled_from([None, None, b"a\nb\n", b"\xff\xfe", b"a\0b\n"])),
    }


def check_tree(case: dict[str, Any], folder: Path) -> None:
    """Refused, or every picture once, with a class that there is."""
    root = folder / "root"
    root.mkdir()
    deep = case["kind"] == "frames"
    for name, entries in case["folders"]:
        place = root / name / "sequence" if deep else root / name
        place.mkdir(parents=True, exist_ok=True)
        for inner, kind in entries:
            path = place / f"{inner}.png"
            if not os.path.lexists(path):
                _make(path, kind, root)
        if case["kind"] == "frames-lines":
            (root / name / "labels.txt").write_bytes(case["lines"])
    if case["classes"] is not None:
        (root / "classes.txt").write_bytes(case["classes"])
    spec = f"{case['kind'].partition('-')[0]}:{root}"

    def all_of_it() -> Any:
        data = load_data(spec, split=case["split"])
        return data, [data[index] for index in range(len(data))]

    opened = watched(all_of_it, folder, case).value
    if opened is None:
        return
    data, items = opened
    files = {os.path.realpath(data.name(index)) for index in range(len(data))}
    if len(files) != len(data):
        raise Finding(f"{len(data)} pictures are {len(files)} files: {case}")
    filled = {Path(path).relative_to(root).parts[0] for path in map(data.name, range(len(data)))}
    if data.unlabelled:
        if len(filled & {name for name, _ in case["folders"]}) > 1 or {label for _, label in items} != {-1}:
            raise Finding(f"pictures in folders of classes have no labels, or some have: {case}")
    elif not all(0 <= label < len(data.classes) for _, label in items):
        raise Finding(f"labels that are no class: {case}")


def _make(path: Path, kind: str, root: Path) -> None:
    if kind == "picture":
        shutil.copy(base() / "folder" / "train" / "class0" / "first.png", path)
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("no picture")
    elif kind == "folder":
        path.mkdir()
    elif kind == "dangling":
        path.symlink_to(root / "nowhere.png")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "up":
        path.with_suffix("").symlink_to(root) if not os.path.lexists(path.with_suffix("")) else None
    else:
        os.mkfifo(path)


@st.composite
def label_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Published labels, or lists of classes, that are not as they should be."""
    if draw(st.booleans()):
        content: Any = [[0], [1, 2], [], [2, 2], [0], [1], [2], [0], [1], [0, 1, 2], [1], [2]]
        for path, value, remove in draw(changes()):
            content = put(content, path, value, remove)
        text = json.dumps(content).encode()
        return "real", draw(st.sampled_from([text, text, text, b"", b"[" * 100_000, b"\xff", text[:9]]))
    lines = draw(LINES.map("\n".join).map(str.encode))
    return "classes", draw(
        st.sampled_from([lines, lines, b"\xff\xfe", b"", b"class0\nclass1", b"class0\nclass0"])
    )


def check_labels(case: tuple[str, bytes], folder: Path) -> None:
    """Refused, or labels that are outputs, of which at least two can be chosen."""
    kind, content = case
    (folder / "file").write_bytes(content)
    images = np.zeros((12, 4, 4, 3), np.uint8)
    data = ImageData("fashion", "test", ["class0", "class1", "class2"], np.arange(12) % 3, images=images)
    words = {"labels": f"real:{folder / 'file'}"} if kind == "real" else {"classes": str(folder / "file")}
    said = watched(lambda: relabel(data, **words), folder, case)  # type: ignore[arg-type]
    if said.refusal is None and len(said.value.classes) < 2:
        raise Finding(f"accepted: {said.value} of {case}")


STUDY: dict[str, Any] = {
    "name": "tiny",
    "question": "Does it run?",
    "fraction": 0.02,
    "changes": {"epochs": 1},
    "seeds": 1,
    "validation": 0.02,
    "arms": {"plain": {"model": "vit_mini"}, "other": {"model": "vit_mini", "operations": ["smooth"]}},
    "exams": {
        "prediction": {"batch_size": 40},
        "loss": {"exam": "prediction", "split": "train", "limit": 60},
    },
    "comparisons": [
        {"name": "better", "statement": "It is better", "of": "other", "against": "plain", "rule": "above 0"}
        | {"quantity": "prediction.accuracy"}
    ],
}


@st.composite
def studies(draw: st.DrawFn) -> bytes:
    """A study's file with other values in a few places."""
    content: Any = STUDY
    names = st.sampled_from(
        ["plain", "nobody", "strangers_code:model", "../x", "all", "fourier", "train", "below 0", "1e999"]
    )
    places = st.lists(st.integers(0, 9), min_size=1, max_size=5)
    for path, value, remove in draw(
        st.lists(
            st.tuples(places, st.one_of(st.sampled_from(ODD), names), st.booleans()), min_size=1, max_size=3
        )
    ):
        content = put(content, path, value, remove)
    text = yaml.safe_dump(content, allow_unicode=True).encode()
    odd = [
        b"!!python/object/apply:os.system ['x']",
        b"a: &a [*a]",
        text + b"\n&x : *x",
        text.replace(b":", b"::"),
    ]
    return draw(st.sampled_from([text] * 6 + odd))


def check_study(content: bytes, folder: Path) -> None:
    """Refused, or planned; nothing is written."""
    (folder / "study.yaml").write_bytes(content)
    watched(lambda: plan_study(Study.read(folder / "study.yaml"), Store(folder / "store")), folder, content)
