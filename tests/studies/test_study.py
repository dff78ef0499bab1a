from pathlib import Path

import pytest

from vitscope.claims.verdict import Rule
from vitscope.core.errors import BadArgument
from vitscope.studies.study import Arm, Comparison, Look, Study

FILE = """
name: cb
question: Does Context Broadcasting help?
data: fashion
recipe: mini
changes: {epochs: 4, lr: 2e-3}
seeds: 3
arms:
  plain: {model: vit_mini}
  broadcast:
    model: vit_mini
    arguments: {embed_dim: 64}
    operations:
      - broadcast_context: {kind: cb, layers: upper}
    fraction: 0.5
    changes: {epochs: 2}
    seeds: [5, 7]
  local: {from: broadcast, operations: [localize kernel=3], train: false}
exams:
  prediction:
  hessian: {split: train, batches: 8, recipe: arm, arms: [plain]}
  train_loss: {exam: prediction, split: train, limit: 5000}
comparisons:
  - {of: broadcast, against: plain, quantity: prediction.accuracy, rule: above 0}
  - {name: flat, statement: It is flat, of: plain, quantity: "hessian.nep[kind=all]", rule: within 0.01}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "study.yaml"
    path.write_text(text)
    return path


def test_a_file_says_what_an_arm_does_not_say_itself(tmp_path):
    study = Study.read(written(tmp_path, FILE))
    plain, broadcast, local = study.arms
    assert plain == Arm("plain", "vit_mini", changes={"epochs": 4, "lr": "2e-3"}, seeds=(0, 1, 2))
    assert broadcast.changes == {"epochs": 2, "lr": "2e-3"}
    assert (broadcast.fraction, broadcast.seeds, broadcast.start) == (0.5, (5, 7), None)
    assert (local.start, local.train, local.operations) == ("broadcast", False, ("localize kernel=3",))
    assert (local.model, local.fraction, local.seeds, local.changes) == (
        "vit_mini",
        0.5,
        (5, 7),
        broadcast.changes,
    )
    prediction, hessian, train_loss = study.looks
    assert prediction == Look("prediction", "prediction")
    assert hessian.options == {"batches": 8, "recipe": "arm"}
    assert (train_loss.exam, train_loss.split, train_loss.limit) == ("prediction", "train", 5000)
    assert [look.label for look in study.looks_at("local")] == ["prediction", "train_loss"]
    first, second = study.comparisons
    assert first.name == "prediction.accuracy: broadcast - plain"
    assert (first.rule, second.rule) == (Rule("above", 0.0), Rule("within", 0.01))
    assert (second.against, second.statement) == (None, "It is flat")
    assert Study.read(written(tmp_path, FILE)) == study


def test_with_images_held_out_exams_look_at_those(tmp_path):
    study = Study.read(written(tmp_path, FILE + "validation: 0.2\n"))
    assert [look.split for look in study.looks] == ["validation", "train", "train"]


def test_fewer_seeds_more_seeds_and_some_arms(tmp_path):
    study = Study.read(written(tmp_path, FILE))
    assert [arm.seeds for arm in study.with_seeds(1).arms] == [(0,), (5,), (5,)]
    assert [arm.seeds for arm in study.with_seeds(3).arms] == [(0, 1, 2), (5, 7, 0), (5, 7, 0)]
    local = study.only(["local"])
    assert [arm.name for arm in local.arms] == ["broadcast", "local"]
    assert [look.label for look in local.looks] == ["prediction", "train_loss"]
    assert local.comparisons == ()
    with pytest.raises(BadArgument, match="only: no arm 'locl'; did you mean local"):
        study.only(["locl"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: cb", "nam: cb", "no 'nam'; did you mean name"),
        ("name: cb", "name: a/b", "a study's name is 'a/b'; expected letters"),
        ("plain: {model", "plain: {modle", "arms.plain: no 'modle'; did you mean model"),
        ("plain: {model: vit_mini}", "plain: vit_mini", "arms.plain is 'vit_mini'; expected 'plain: {model"),
        ("plain: {model: vit_mini}", "plain: {train: true}", "arm plain: no model; add 'model: vit_mini'"),
        ("plain: {model: vit_mini}", "plain: {model: 3}", "arms.plain: model is 3; expected text"),
        ("  broadcast:\n", "  plain:\n", "line 10, column 3: 'plain' stands there twice"),
        ("seeds: 3", "seeds: 0", "seeds is 0; expected a whole number, 1 or more"),
        ("seeds: 3", "seeds: 1000000000", "seeds is 1000000000; expected a whole number from 1 to 10,000"),
        ("seeds: [5, 7]", "seeds: [5, 5]", "arm broadcast: seed 5 stands there twice"),
        ("fraction: 0.5", "fraction: 5", "arms.broadcast: fraction is 5; expected a number, more than 0"),
        ("changes: {epochs: 2}", "changes: 2", "arms.broadcast: changes is 2; expected a dict"),
        ("recipe: mini", "recipe:", "recipe is empty; expected text, or leave the line out"),
        (
            "- broadcast_context:",
            "- brodcast_context:",
            "no operation 'brodcast_context'; did you mean broadcast",
        ),
        ("from: broadcast", "from: brodcast", "arm local: from: no arm 'brodcast'; did you mean broadcast"),
        ("from: broadcast", "from: local", "arm local starts from itself"),
        ("from: broadcast", "model: vit_mini, from: broadcast", "arm local: it has 'model' and 'from'"),
        ("train: false", "train: false, seeds: 3", "arm local: seed 0, with which broadcast is not trained"),
        ("  prediction:\n", "  predicton:\n", "no exam 'predicton'; did you mean prediction"),
        ("exam: prediction", "exam: predicton", "no exam 'predicton'; did you mean prediction"),
        ("arms: [plain]", "arms: [plan]", "exam hessian: arms: no arm 'plan'; did you mean plain"),
        ("limit: 5000", "limit: many", "exams.train_loss: limit is 'many'; expected a whole number"),
        ("split: train,", "split: validation,", "exam hessian: split is validation, but no training images"),
        ("  train_loss:", "  training:", "an exam is labelled 'training'"),
        ("of: broadcast,", "of: brodcast,", "no arm 'brodcast'; did you mean broadcast"),
        ("against: plain", "against: broadcast", "broadcast is compared with itself"),
        (
            "prediction.accuracy",
            "predction.accuracy",
            "no exam is labelled 'predction'; did you mean prediction",
        ),
        ("prediction.accuracy", "accuracy", "quantity is 'accuracy'; expected LABEL.QUANTITY"),
        ("hessian.nep", "hessian.nep[", "expected LABEL.QUANTITY"),
        ("of: plain, quantity", "of: broadcast, quantity", "exam hessian does not look at arm broadcast"),
        ("rule: above 0", "rule: over 0", "rule is 'over 0'; expected 'above 0'"),
        ("rule: within 0.01", "rule: within 0", "rule is 'within 0'; expected 'above 0'"),
        (", rule: above 0", "", r"comparisons\[0\]: no 'rule'"),
        ("name: flat", "name: 'prediction.accuracy: broadcast - plain'", "comparison .* stands there twice"),
        (
            "of: broadcast, against: plain",
            "of: broadcast, agianst: plain",
            "no 'agianst'; did you mean against",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(tmp_path, old, new, said):
    assert old in FILE
    path = written(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(BadArgument, match=said) as caught:
        Study.read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("key", ["name", "arms", "exams"])
def test_what_is_missing_is_said(tmp_path, key):
    content = "".join(
        f"{name}: {{a: }}\n" if name != "name" else "name: a\n" for name in ("name", "arms", "exams")
    )
    with pytest.raises(BadArgument, match=f"does not say '{key}'"):
        Study.read(
            written(tmp_path, "".join(line for line in content.splitlines(True) if not line.startswith(key)))
        )


def test_a_circle_is_found_in_python_too():
    arms = (Arm("a", "vit_mini", start="b"), Arm("b", "vit_mini", start="a"))
    with pytest.raises(BadArgument, match="arm a starts from itself: a from b from a"):
        Study("x", "", arms, (Look("prediction"),))
    with pytest.raises(BadArgument, match="arm a stands there twice"):
        Study("x", "", (arms[0], arms[0]), (Look("prediction"),))
    with pytest.raises(BadArgument, match="quantity is 'a b'"):
        Comparison("x", "", "a", None, "a b", Rule("above"))
