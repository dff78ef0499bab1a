import dataclasses
import shutil
from pathlib import Path

import pytest

from tests.data.test_folder import fill
from tests.studies.tiny_study import LOOKS, SHARED, arms, tiny_study
from vitscope.core.errors import BadArgument
from vitscope.models.errors import UntrustedCode
from vitscope.recipes.named import get_recipe
from vitscope.studies.design import Arm, Look
from vitscope.studies.graph import Plan, plan_study
from vitscope.studies.run import Seen, StudyRequest, plan_request
from vitscope.studies.store import Store
from vitscope.studies.study import Study

TINY = "vit_mini"


def planned(study: Study, store: Path) -> Plan:
    return plan_study(study, Store(store))


def test_jobs_and_what_they_need(tmp_path):
    plan = planned(tiny_study(arms=arms(seeds=(0, 3))), tmp_path)
    titles = [node.title for node in plan.missing.values()]
    assert titles[:5] == [
        "train plain, seed 0",
        "examine plain, seed 0 (prediction, attention)",
        "examine plain, seed 0 (train_loss)",
        "train broadcast, seed 0",
        "examine broadcast, seed 0 (prediction, attention)",
    ]
    # the first seed of all arms comes before the second of any, and compared arms before others
    assert [t for t in titles if "train_loss" not in t and "examine" in t] == [
        f"examine {arm}, seed {seed} (prediction, attention)"
        for seed in (0, 3)
        for arm in ("plain", "broadcast", "local")
    ]
    by_title = {node.title: node for node in plan.missing.values()}
    operated = by_title["operate on local, seed 3"]
    assert operated.needs == (by_title["train plain, seed 3"].key,)
    assert by_title["examine local, seed 3 (train_loss)"].needs == (operated.key,)
    assert set(plan.trainings) == {(arm, seed) for arm in ("plain", "broadcast") for seed in (0, 3)}
    assert len(plan.looks) == 2 * (3 + 2 + 3)
    assert plan.results() == {}
    assert plan.training() == {}


def keys(study: Study, store: Path, arm: str = "plain") -> tuple[str, str]:
    """Of the training and of one exam of an arm."""
    plan = planned(study, store)
    return plan.trainings[arm, study.arm(arm).seeds[0]], plan.looks[
        arm, study.arm(arm).seeds[0], "prediction"
    ][0]


def one_arm(
    look: dict[str, object] | None = None, validation: float | None = 0.02, **changed: object
) -> Study:
    arm = Arm("plain", **{"model": TINY, **SHARED, **changed})
    looks = (Look("prediction", **{"split": "test", **(look or {})}),)
    return Study("x", "", (arm,), looks, validation=validation)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "resnet_mini"},
        {"arguments": {"embed_dim": 48}},
        {"operations": ("localize",)},
        {"recipe": "weak"},
        {"changes": {"epochs": 3, "warmup_epochs": 0}},
        {"fraction": 0.03},
        {"seeds": (1,)},
        {"validation": 0.03},
        {"validation": None},
    ],
    ids=str,
)
def test_a_training_that_depends_on_something_else_is_another(tmp_path, changed):
    assert not set(keys(one_arm(), tmp_path)) & set(keys(one_arm(**changed), tmp_path))


@pytest.mark.parametrize(
    "look",
    [{"split": "train"}, {"limit": 50}, {"batch_size": 64}, {"data": "fashion", "split": "train"}],
    ids=str,
)
def test_an_exam_of_other_images_is_another(tmp_path, look):
    training, exam = keys(one_arm(), tmp_path)
    assert keys(one_arm(look), tmp_path)[0] == training
    assert keys(one_arm(look), tmp_path)[1] != exam


def test_an_exam_with_another_definition_is_another(tmp_path, monkeypatch):
    from vitscope.findings.prediction import PredictionResult

    training, exam = keys(one_arm(), tmp_path)
    monkeypatch.setattr(PredictionResult, "version", 99)
    assert keys(one_arm(), tmp_path) == (training, keys(one_arm(), tmp_path)[1])
    assert keys(one_arm(), tmp_path)[1] != exam


def test_options_make_another_exam_and_the_recipe_of_the_arm_is_written_out(tmp_path):
    def key(**options: object) -> str:
        study = dataclasses.replace(one_arm(), looks=(Look("hessian", options=options),))
        return planned(study, tmp_path).looks["plain", 0, "hessian"][0]

    assert len({key(), key(k=2), key(recipe="arm"), key(recipe="weak"), key(tol=1e-2)}) == 5
    assert key(tol="1e-2") == key(tol=1e-2)  # as YAML reads it
    study = dataclasses.replace(one_arm(), looks=(Look("hessian", options={"recipe": "arm"}),))
    (node,) = [node for node in planned(study, tmp_path).missing.values() if node.labels]
    written = node.job.describe()["arguments"]["looks"][0]["options"]["recipe"]
    assert (written["epochs"], written["lr"]) == (2, get_recipe("mini").lr)


def test_what_it_is_called_does_not_matter(tmp_path):
    base = keys(one_arm(), tmp_path)
    get_recipe("mini").to_yaml(tmp_path / "mine.yaml")
    assert keys(one_arm(recipe=str(tmp_path / "mine.yaml")), tmp_path) == base
    other = dataclasses.replace(one_arm(), name="y", arms=(dataclasses.replace(one_arm().arms[0], name="z"),))
    assert keys(other, tmp_path, "z") == base
    as_words = one_arm(operations=("localize kernel=3",))
    assert keys(as_words, tmp_path) == keys(one_arm(operations=({"localize": {"kernel": 3}},)), tmp_path)


def test_arms_that_are_the_same_are_trained_once(tmp_path):
    first = one_arm().arms[0]
    study = dataclasses.replace(one_arm(), arms=(first, dataclasses.replace(first, name="twin")))
    assert [node.kind for node in planned(study, tmp_path).missing.values()] == ["train", "examine"]


def test_a_model_in_a_folder_is_known_by_its_weights(tmp_path):
    import torch

    import vitscope as vs

    def saved(seed: int) -> str:
        torch.manual_seed(seed)
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        vs.save_model(vs.create_model(TINY, num_classes=10), tmp_path / "run")
        return str(tmp_path / "run")

    first, again, other = (keys(one_arm(model=saved(seed)), tmp_path)[0] for seed in (0, 0, 1))
    assert first == again != other


def test_files_that_change_make_other_images(tmp_path):
    from PIL import Image

    for label in ("cat", "dog"):
        for number in range(2):
            path = tmp_path / "photos" / "train" / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 32), (number, 0, 0)).save(path)
    study = one_arm({"split": "train"}, None, data=f"folder:{tmp_path / 'photos'}", fraction=1.0)
    before = keys(study, tmp_path)
    assert keys(study, tmp_path) == before
    Image.new("RGB", (40, 40)).save(path)
    assert not set(keys(study, tmp_path)) & set(before)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "vit_mni"}, "arm plain: no model 'vit_mni'; did you mean"),
        ({"recipe": "minni"}, "arm plain: no recipe 'minni'"),
        ({"changes": {"epoch": 3}}, "arm plain: a recipe has no 'epoch'; did you mean 'epochs'"),
        ({"changes": {"lr": "fast"}}, "arm plain: changes.lr is 'fast'; expected a number"),
        ({"recipe": "deit-distill"}, "arm plain: recipe deit-distill learns from a teacher"),
        ({"operations": ({"localize": {"kernl": 3}},)}, r"arm plain: localize\(\): no argument 'kernl'"),
        ({"operations": ("localize kernel=big",)}, "arm plain: localize kernel is 'big'"),
        ({"data": "fasion"}, "arm plain: no data set 'fasion'"),
        ({"fraction": 0.00001}, "arm plain: fraction 1e-05 leaves class"),
        ({"look": {"split": "tset"}}, "exam prediction: fashion has no split 'tset'"),
        ({"look": {"options": {"bins": "x"}}}, "exam prediction: no option prediction.bins"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, changed, said):
    with pytest.raises(BadArgument, match=said) as caught:
        planned(one_arm(**changed), tmp_path)
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_code_that_a_file_names_has_to_be_trusted(tmp_path):
    study = tiny_study()
    with pytest.raises(UntrustedCode, match=r"mine.yaml names code, which was not run"):
        plan_study(study, Store(tmp_path), "mine.yaml")
    plan = plan_study(study, Store(tmp_path), "mine.yaml", trust_code=True)
    own = planned(study, tmp_path)
    assert plan.trainings == own.trainings
    assert plan.looks == own.looks


def test_images_are_the_same_for_every_seed_and_held_out_ones_are_not_trained_on(tmp_path):
    from vitscope.studies.images import Part

    learned = Part("fashion", "train", 0.5, 0.2).load()
    held_out = Part("fashion", "validation", 1.0, 0.2).load()
    assert (len(held_out), len(learned)) == (1200, 2400)
    assert not set(learned.positions) & set(held_out.positions)
    assert (learned.split, held_out.split) == ("train", "validation")
    assert len(LOOKS) == 3


@pytest.mark.parametrize(
    ("exam", "said"), [("variance", "arm plain: a training"), ("prediction", "exam prediction: prediction")]
)
def test_images_without_labels_are_refused_before_anything_runs(tmp_path, exam, said):
    photos = fill(tmp_path / "data", {"train": 3, "test": 3})
    study = one_arm(None, None, data=f"folder:{photos}", fraction=1.0, train=exam == "variance")
    study = dataclasses.replace(study, looks=(Look(exam, split="test"),))
    with pytest.raises(BadArgument, match=f"{said} needs labels, and the images of .* have none"):
        plan_request(StudyRequest(study, tmp_path / "store", "here"), Seen())
    assert not (tmp_path / "store").exists()
