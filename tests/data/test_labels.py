"""Published labels, and how outputs are read as answers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from vitscope.core.errors import BadData
from vitscope.data import ImageData, Readout, batches, load_data, readout, relabel
from vitscope.data.config import DataConfig
from vitscope.data.labels import PLAIN, imagenet_classes, labels_hint

CONFIG = DataConfig((1, 32, 32), crop_pct=1.0)
TENCH, SHARK, CRAB = "n01440764", "n01484850", "n01978287"


@pytest.fixture(scope="module")
def pictures() -> ImageData:
    return load_data("fashion").subset(np.arange(40))


def write(folder: Path, pictures: ImageData, names: dict[str, list[str]]) -> Path:
    """Real pictures, one after the other, under these class folders and file names."""
    number = 0
    for name, files in names.items():
        (folder / name).mkdir(parents=True)
        for file in files:
            pictures[number][0].save(folder / name / file)
            number += 1
    return folder


@pytest.fixture
def imagenet_a(tmp_path: Path, pictures: ImageData) -> ImageData:
    files = {name: [f"{i}.png" for i in range(3)] for name in (CRAB, TENCH, SHARK)}
    (tmp_path / "README.txt").write_text("as in the published archive")
    return load_data(f"folder:{write(tmp_path, pictures, files)}")


@pytest.fixture
def validation(tmp_path: Path, pictures: ImageData) -> ImageData:
    """Images 1 to 6 of a validation set, which the class folders put into another order."""
    number = "ILSVRC2012_val_{:08d}.png".format
    files = {SHARK: [number(2), number(4)], TENCH: [number(6), number(1)], CRAB: [number(3), number(5)]}
    return load_data(f"folder:{write(tmp_path / 'val', pictures, files).parent}", split="val")


def test_the_1000_classes_are_in_alphabetical_order() -> None:
    names = imagenet_classes()
    assert len(names) == 1000
    assert list(names) == sorted(names)
    assert (names[0], names[2], names[999]) == (TENCH, SHARK, "n15075141")


def test_imagenet_a(imagenet_a: ImageData) -> None:
    assert imagenet_a.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    place = imagenet_classes().index(CRAB)
    data = relabel(imagenet_a, labels="imagenet")
    assert data.labels.tolist() == [0, 0, 0, 2, 2, 2, place, place, place]
    assert len(data.classes) == 1000
    assert readout(data).outputs is None
    chosen = readout(relabel(imagenet_a, labels="imagenet", classes="present"))
    assert chosen.outputs is not None
    assert chosen.outputs.tolist() == [0, 2, place]
    assert chosen.classes == (TENCH, SHARK, CRAB)


def test_imagenet_v2_goes_by_the_number(tmp_path: Path, pictures: ImageData) -> None:
    write(tmp_path, pictures, {str(k): ["a.png", "b.png"] for k in (0, 1, 2, 10, 11)})
    plain = load_data(f"folder:{tmp_path}")
    assert plain.classes == ("0", "1", "10", "11", "2")
    assert "label 2 is '10'" in (labels_hint(plain, 1000) or "")
    data = relabel(plain, labels="numeric")
    assert [Path(data.name(i)).parent.name for i in range(10)] == [str(k) for k in data.labels]
    assert data.classes == tuple(str(k) for k in range(12))
    assert labels_hint(data, 1000) is None


def test_real_goes_by_the_number_in_the_name(validation: ImageData, tmp_path: Path) -> None:
    entries = [[5], [2, 7], [], [2], [1, 0], [9, 9]]
    (tmp_path / "real.json").write_text(json.dumps(entries))
    data = relabel(validation, labels=f"real:{tmp_path / 'real.json'}")
    by_number = {int(data.name(i).rsplit("_", 1)[1][:8]): i for i in range(len(data))}
    assert sorted(by_number) == [1, 2, 4, 5, 6]  # image 3 has no label
    answers = readout(data).answers
    assert answers is not None
    assert {number: answers[i] for number, i in by_number.items()} == {
        1: (5,),
        2: (2, 7),
        4: (2,),
        5: (1, 0),
        6: (9,),
    }
    half = data.subset(np.array([3, 1]))
    assert readout(half).answers == (answers[3], answers[1])
    assert half.labels.tolist() == [answers[3][0], answers[1][0]]


def test_pictures_stay_with_their_labels(validation: ImageData, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text(json.dumps([[k] for k in range(6)]))
    data = relabel(validation, labels=f"real:{tmp_path / 'real.json'}")
    for images, labels, indices in batches(data, config=CONFIG, batch_size=4):
        for image, label, i in zip(images, labels, indices, strict=True):
            assert data.name(int(i)).endswith(f"{int(label) + 1:08d}.png")
            pixels = np.asarray(data[int(i)][0], np.float32) / 255
            np.testing.assert_allclose(image[0] * CONFIG.std[0] + CONFIG.mean[0], pixels, atol=1e-5)


def test_images_in_memory_go_by_their_place(pictures: ImageData, tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps([[int(k), (int(k) + 1) % 10] for k in pictures.labels]))
    data = relabel(pictures, labels=f"real:{path}")
    np.testing.assert_array_equal(data.labels, pictures.labels)
    path.write_text(json.dumps([[0]] * 39))
    with pytest.raises(BadData, match="labels for 39 images, fashion has 40"):
        relabel(pictures, labels=f"real:{path}")


def test_classes_from_a_file(pictures: ImageData, tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_text("Ankle boot\nBag\n\nCoat\n")
    data = relabel(pictures, classes=str(path))
    assert set(data.labels.tolist()) <= {4, 8, 9}
    assert len(data) == int(np.isin(pictures.labels, [4, 8, 9]).sum())
    assert readout(data).classes == ("Coat", "Bag", "Ankle boot")
    path.write_text("Coat\nHat\n")
    with pytest.raises(BadData, match="'Hat' is no class"):
        relabel(pictures, classes=str(path))
    path.write_text("Coat\n")
    with pytest.raises(BadData, match="leaves 1 classes"):
        relabel(pictures, classes=str(path))


def test_a_line_may_say_more_than_the_name(imagenet_a: ImageData, tmp_path: Path) -> None:
    path = tmp_path / "synset_words.txt"
    path.write_text(f"{TENCH} tench, Tinca tinca\n{SHARK} great white shark\n")
    assert set(relabel(imagenet_a, "imagenet", str(path)).labels.tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "not a list of lists"),
        ("[1, 2]", "not a list of lists"),
        ("[[1.5]]", "not a list of lists"),
        ("[[", "cannot read labels"),
        ("[[0], [1]]", "labels for 2 images, .* is number 6"),
        ("[[0], [1], [2], [3], [4], [1000]]", "expected 0 to 999"),
        ("[[], [], [], [], [], []]", "no image has a right answer"),
    ],
)
def test_label_files_that_do_not_fit(
    validation: ImageData, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "real.json").write_text(content)
    with pytest.raises(BadData, match=message):
        relabel(validation, labels=f"real:{tmp_path / 'real.json'}")


def test_folders_that_do_not_fit(imagenet_a: ImageData, pictures: ImageData, tmp_path: Path) -> None:
    with pytest.raises(BadData, match="T-shirt/top' is no class of ImageNet-1k"):
        relabel(pictures, labels="imagenet")
    with pytest.raises(BadData, match=f"'{TENCH}' is no number"):
        relabel(imagenet_a, labels="numeric")
    (tmp_path / "real.json").write_text("[[0]]")
    with pytest.raises(BadData, match="does not tell its number"):
        relabel(imagenet_a, labels=f"real:{tmp_path / 'real.json'}")
    with pytest.raises(BadData, match="no labels 'wordnet'"):
        relabel(imagenet_a, labels="wordnet")
    with pytest.raises(BadData, match="once"):
        relabel(relabel(imagenet_a, labels="imagenet"), classes="present")


def test_hints(imagenet_a: ImageData, pictures: ImageData) -> None:
    assert "--labels imagenet" in (labels_hint(imagenet_a, 1000) or "")
    assert labels_hint(imagenet_a, 3) is None  # trained on these folders
    assert labels_hint(pictures, 1000) is None


LOGITS = torch.tensor([[1.0, 4.0, 2.0, 3.0], [5.0, 1.0, 0.0, 2.0]])
LABELS = torch.tensor([3, 2])
PLACES = torch.tensor([1, 0])


def test_plain_changes_nothing() -> None:
    logits, labels = PLAIN(LOGITS, LABELS, PLACES)
    assert logits is LOGITS
    assert labels is LABELS
    assert PLAIN.digest == Readout(("a", "b")).digest == b""


def test_only_some_outputs_may_be_chosen() -> None:
    logits, labels = Readout(outputs=np.array([0, 2, 3]))(LOGITS, LABELS, PLACES)
    assert logits.tolist() == [[1.0, 2.0, 3.0], [5.0, 0.0, 2.0]]
    assert labels.tolist() == [2, 1]


def test_of_several_right_labels_the_likeliest_counts() -> None:
    by_place = ((0, 1, 2), (2, 3))
    logits, labels = Readout(answers=by_place)(LOGITS, LABELS, PLACES)
    assert logits is LOGITS
    assert labels.tolist() == [3, 0]  # image 1: 3 beats 2; image 0: 0 beats 1 and 2


def test_both_together() -> None:
    found = Readout(outputs=np.array([1, 2, 3]), answers=((1, 2), (1, 3)))(LOGITS, LABELS, PLACES)
    assert found[1].tolist() == [0, 0]


def test_a_model_with_too_few_outputs_is_refused() -> None:
    with pytest.raises(BadData, match="outputs 0 to 3, the classes need output 9"):
        Readout(outputs=np.array([0, 9]))(LOGITS, LABELS, PLACES)


def test_digests_tell_readouts_apart() -> None:
    several = [
        Readout(outputs=np.array([0, 1])),
        Readout(outputs=np.array([0, 2])),
        Readout(answers=((0,), (1,))),
    ]
    assert len({found.digest for found in several}) == 3


def test_of_data() -> None:
    data = load_data("fashion")
    assert readout(data) == Readout(data.classes)
    assert readout((LOGITS, LABELS)) is PLAIN
    assert readout(relabel(data, classes="present")).classes == data.classes
