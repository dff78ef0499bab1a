"""What claims cost, found by building and training every model for a step."""

import math
from pathlib import Path

import pytest

from tests.studies.published_layouts import prepare_cifar100, put_imagenets
from vitscope.cli import app
from vitscope.core.errors import BadData
from vitscope.data import load_data
from vitscope.studies.cards import list_cards
from vitscope.studies.dry_run import ClaimCost, rehearse_claims
from vitscope.studies.images import Part
from vitscope.studies.rehearsal import Pace
from vitscope.studies.scales import PublishedData, read_scale
from vitscope.studies.stand_ins import StandIns, stand_in

SHORT = Pace(steps=1, images=2, batch=2)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of somebody who has everything that the papers trained on, if very little of it."""
    prepare_cifar100(tmp_path / "prepared", monkeypatch)
    put_imagenets(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_done(costs: list[ClaimCost]) -> None:
    for cost in costs:
        assert cost.note == "", cost
        assert cost.trainings == 0 or (
            cost.seconds > 0 and cost.disk > 0
        )  # 0: it shares all with claims before it


def test_the_papers_configurations_are_built_and_trained_for_a_step(there: Path) -> None:
    """A sample: F5 has the relatives of ImageNet, C7 local attention, F9 MC dropout and smoothing in ResNet-18."""
    costs = rehearse_claims(["C7", "F5", "F9"], "paper", 1, pace=SHORT)
    check_done(costs)
    assert {cost.claim: cost.trainings for cost in costs} == {"C7": 3, "F5": 2, "F9": 2}
    assert not (there / "runs").exists()  # nothing was done


@pytest.mark.slow  # all the papers' models, some of 224 pixels
def test_all_the_papers_configurations_are_built_and_trained_for_a_step(there: Path) -> None:
    claims = [card.claim for card in list_cards() if not card.claim.startswith("G")]  # see test_task_claims
    costs = rehearse_claims(claims, "paper", 1, pace=SHORT)
    check_done(costs)
    assert [cost.claim for cost in costs] == claims


def test_a_training_that_two_claims_need_is_counted_with_the_first(tmp_path: Path) -> None:
    first, second = rehearse_claims(["D6", "E4"], "smoke", 2, tmp_path, pace=SHORT)
    assert (first.trainings, second.trainings) == (2, 0)
    assert second.seconds < first.seconds
    (alone,) = rehearse_claims(["E4"], "smoke", 2, tmp_path, pace=SHORT)
    assert alone.trainings == 2


def test_data_that_is_not_there_is_said_and_stood_in_for(nothing_there: Path) -> None:
    (cost,) = rehearse_claims(["D6"], "paper", 1, pace=SHORT)
    assert cost.note == "cifar100 is not there: vitscope data prepare cifar100"
    assert cost.trainings == 1
    assert cost.published_trainings == 1
    assert cost.published_seconds == pytest.approx(
        50_000 * 305 / 434
    )  # ViT-Ti's images per second in the paper
    assert cost.seconds > 0
    one = 4 * 5_400_000  # bytes of ViT-Ti
    assert 300 * one < cost.disk < 330 * one  # a checkpoint per epoch, for the trajectory


def test_stand_ins_are_as_many_and_take_no_room() -> None:
    scale = read_scale("paper")
    part = Part("folder:imagenet", "train")
    images = stand_in(part, scale.data["folder:imagenet"])
    assert len(images) == 1_281_167
    assert len(images.classes) == 1000
    assert set(images.labels) == set(range(1000))
    picture, label = images[1_281_166]
    assert (picture.mode, picture.size, label) == ("RGB", (500, 375), 1_281_166 % 1000)
    tenth = stand_in(Part("cifar100", "train", 0.1), PublishedData(100, 10_000, 50_000))
    assert tenth.images is not None
    assert tenth.images.shape == (5000, 32, 32, 3)
    assert tenth.images.base is not None  # one image, seen 5000 times


def test_relatives_of_imagenet_are_asked_for_one_by_one(nothing_there: Path) -> None:
    images = StandIns(read_scale("paper"))
    real = Part("folder:imagenet", "test", labels="real:imagenet-real/real.json")
    images.open(real)
    assert set(images.lacking) == {"folder:imagenet", "real:imagenet-real/real.json"}
    put_imagenets(nothing_there)
    (nothing_there / "imagenet-real" / "real.json").unlink()
    images = StandIns(read_scale("paper"))
    images.open(real)
    assert set(images.lacking) == {"real:imagenet-real/real.json"}
    assert len(images.open(Part("folder:imagenet", "test"))) == len(load_data("folder:imagenet"))
    with pytest.raises(BadData, match="folder:elsewhere does not exist"):
        images.open(Part("folder:elsewhere", "test"))


def test_data_that_is_there_and_wrong_is_not_stood_in_for(there: Path) -> None:
    images = StandIns(read_scale("paper"))
    with pytest.raises(BadData, match=r"fraction 0\.01 leaves class 'apple'"):
        images.open(Part("cifar100", "train", 0.01))
    (there / "imagenet-a" / "tench").mkdir()
    with pytest.raises(BadData, match="class 'tench' is no class of ImageNet-1k"):
        images.open(Part("folder:imagenet-a", "test", labels="imagenet"))


def test_on_the_command_line(nothing_there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.main(["reproduce", "D6", "--scale", "smoke", "--dry-run"])
    shown = capsys.readouterr().out
    assert "D6" in shown
    assert "trainings" in shown
    assert not (nothing_there / "runs").exists()
    (cost,) = rehearse_claims(["F5"], "smoke")
    assert cost == ClaimCost("F5", 2, note="at scale paper only")
    assert math.isfinite(cost.seconds)
