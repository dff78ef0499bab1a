"""Which output holds the class scores: the rule by itself, and that every exam goes by it."""

import dataclasses
from collections import namedtuple
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
import torchvision
import transformers
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling, ImageClassifierOutput

import vitscope as vs
from tests.exams.every_exam import CLASSES, FORMS, OF_WEIGHTS, RUNS, images, run, small_vit
from vitscope import exams
from vitscope.cli.app import main
from vitscope.core.errors import UnsupportedModel
from vitscope.core.outputs import (
    NoClassScores,
    UndecidedOutput,
    class_scores,
    class_scores_if_any,
    place_of_scores,
    with_class_scores,
)
from vitscope.engine.exam import EXAMS
from vitscope.engine.random_passes import Members

SCORES, FEATURES, OTHERS = torch.randn(4, 10), torch.randn(4, 16), torch.randn(4, 10)
TOKENS, MAP = torch.randn(4, 65, 16), torch.randn(4, 10, 8, 8)
Named = namedtuple("Named", "main auxiliary")


def model_of(classes: int | None = None, output: str | int | None = None) -> nn.Module:
    model = nn.Identity()
    if classes is not None:
        model.num_classes = classes
    return vs.declare(model, output=output)


@pytest.mark.parametrize(
    ("output", "classes", "wanted"),
    [
        (SCORES, None, SCORES),
        (MAP, None, MAP),
        (ImageClassifierOutput(logits=SCORES, hidden_states=(TOKENS,)), None, SCORES),
        (SimpleNamespace(features=OTHERS, logits=SCORES), None, SCORES),
        ({"aux": FEATURES, "logits": SCORES}, None, SCORES),
        ({"aux": OTHERS, "out": SCORES}, None, SCORES),
        ({"out": MAP, "aux": MAP + 1}, None, MAP),
        ({"out": FEATURES, "main": SCORES}, 10, SCORES),
        ([SCORES], 7, SCORES),
        ({"x": MAP}, None, MAP),
        ((FEATURES, SCORES), 10, SCORES),
        ((SCORES, FEATURES), 16, FEATURES),
        ((TOKENS, SCORES), None, SCORES),
        (Named(SCORES, TOKENS), None, SCORES),
        ((FEATURES, MAP), 10, MAP),
        ((torch.arange(4), SCORES, torch.randn(())), None, SCORES),
        (({"deep": OTHERS}, SCORES), None, SCORES),
    ],
)
def test_decided(output: object, classes: int | None, wanted: Tensor) -> None:
    assert class_scores(model_of(classes), output, 4) is wanted


@pytest.mark.parametrize(
    ("output", "said", "wanted"),
    [
        ((FEATURES, SCORES), 1, SCORES),
        ((FEATURES, SCORES), -2, FEATURES),
        ({"aux": FEATURES, "logits": SCORES}, "aux", FEATURES),
        (ImageClassifierOutput(loss=None, logits=SCORES), 0, SCORES),
        (Named(SCORES, OTHERS), 1, OTHERS),
        (Named(SCORES, OTHERS), "auxiliary", OTHERS),
        (SimpleNamespace(a=OTHERS, b=SCORES), "b", SCORES),
        (SCORES, 1, SCORES),  # there is but one; such a model may return more while it is trained
    ],
)
def test_said(output: object, said: str | int, wanted: Tensor) -> None:
    assert class_scores(model_of(7, said), output, 4) is wanted


@pytest.mark.parametrize(
    ("output", "classes", "candidates"),
    [
        ((FEATURES, SCORES), None, "0: 4x16, 1: 4x10 .*output=0 or output=1"),
        ((OTHERS, SCORES), 10, "0: 4x10, 1: 4x10 .*10 classes.*output=0 or output=1"),
        ({"a": FEATURES, "b": SCORES}, 7, "'a': 4x16, 'b': 4x10 .*output='a' or output='b'"),
    ],
)
def test_undecided_is_refused_with_what_there_is(
    output: object, classes: int | None, candidates: str
) -> None:
    with pytest.raises(UndecidedOutput, match=candidates):
        class_scores(model_of(classes), output, 4)
    assert class_scores_if_any(model_of(classes), output, 4) is None  # for exams of features


@pytest.mark.parametrize(
    "output", [None, (), torch.zeros(4), torch.zeros(3, 10), [MAP, MAP], [TOKENS, MAP[:, :2]]]
)
def test_a_model_without_class_scores(output: object) -> None:
    assert class_scores_if_any(model_of(10), output, 4) is None
    with pytest.raises(NoClassScores, match=r"returns .*; expected"):
        class_scores(model_of(10), output, 4)


@pytest.mark.parametrize("said", ["probabilities", 2, -3])
def test_an_output_that_is_not_there_is_refused(said: str | int) -> None:
    with pytest.raises(UnsupportedModel, match=f"output={said!r} is none .* 0: 4x16, 1: 4x10; say one"):
        class_scores_if_any(model_of(None, said), (FEATURES, SCORES), 4)


def test_other_scores_in_the_same_output() -> None:
    other = OTHERS
    assert with_class_scores(SCORES, SCORES, other) is other
    named = with_class_scores(ImageClassifierOutput(logits=SCORES), SCORES, other)
    assert named.logits is named["logits"] is other
    assert with_class_scores({"out": SCORES}, SCORES, other)["out"] is other
    assert with_class_scores((FEATURES, SCORES), SCORES, other) == (FEATURES, other)
    assert with_class_scores(Named(SCORES, FEATURES), SCORES, other).main is other
    assert with_class_scores(SimpleNamespace(a=SCORES), SCORES, other).a is other


def test_real_models() -> None:
    inputs = torch.randn(2, 3, 64, 64)
    google = torchvision.models.GoogLeNet(num_classes=5, aux_logits=True, init_weights=False).train()
    assert place_of_scores(google, google(torch.randn(2, 3, 96, 96)), 2) == "logits"
    dense = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=4
    )
    assert place_of_scores(dense.eval(), dense(inputs), 2) == "out"
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=64
    )
    backbone = transformers.ViTModel(config)
    assert isinstance(backbone(inputs), BaseModelOutputWithPooling)
    assert place_of_scores(backbone, backbone(inputs), 2) == "pooler_output"
    distilled = vs.create_model("deit_tiny_distilled_patch16_224", img_size=32, num_classes=5).train()
    distilled.set_distilled_training(True)
    with pytest.raises(UndecidedOutput, match="0: 2x5, 1: 2x5"):
        class_scores(distilled, distilled(inputs[..., :32, :32]), 2)


@cache
def of_tensor(exam: str) -> pd.DataFrame:
    return run(exam, small_vit())


@pytest.mark.parametrize("exam", RUNS)
@pytest.mark.parametrize("form", ["dict", "tuple", "output"])
def test_every_exam_finds_the_class_scores(exam: str, form: str) -> None:
    said = {"output": 1} if form == "tuple" else {}
    found = run(exam, small_vit(FORMS[form]), **said)
    pd.testing.assert_frame_equal(found, of_tensor(exam), check_exact=True)


@pytest.mark.parametrize("exam", [exam for exam in RUNS if exam not in OF_WEIGHTS])
def test_every_exam_of_scores_refuses_what_cannot_be_decided(exam: str) -> None:
    if exam in EXAMS and not EXAMS[exam].needs_labels and exam != "temporal":  # of frames, which have labels
        found = run(exam, small_vit(FORMS["tuple"]))
        pd.testing.assert_frame_equal(found, of_tensor(exam), check_exact=True)
    else:
        with pytest.raises(UndecidedOutput, match=r"0: \d+x16, 1: \d+x10 .*output=0 or output=1"):
            run(exam, small_vit(FORMS["tuple"]))
    with pytest.raises(
        UnsupportedModel, match=r"output='logits' is none of what SmallViT returns: 0: \d+x16"
    ):
        run(exam, small_vit(FORMS["tuple"]), output="logits")


@pytest.mark.parametrize("exam", [exam for exam in RUNS if exam not in OF_WEIGHTS])
def test_every_exam_refuses_to_choose_where_there_is_one_tensor(exam: str) -> None:
    with pytest.raises(UnsupportedModel, match=r"output='zzz' .* returns one tensor, \d+x10; leave output"):
        run(exam, small_vit(), output="zzz")


def test_the_verbs_refuse_to_choose_where_there_is_one_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosed = tmp_path / "diagnosed"
    few = ["--exams", "variance", "--limit", "4"]
    assert main(["diagnose", "vit_mini", *few, "--out", str(diagnosed)]) == 0
    said = ["--output", "zzz"]
    for words in (
        ["diagnose", "vit_mini", *few, "--out", str(tmp_path / "a"), *said],
        [
            "evaluate",
            "vit_mini",
            "--exams",
            "prediction",
            "--limit",
            "4",
            "--out",
            str(tmp_path / "b"),
            *said,
        ],
        ["compare", "vit_mini", str(diagnosed), "--exams", "variance", "--out", str(tmp_path / "c"), *said],
        ["operate", "vit_mini", "--mc-dropout", "--out", str(tmp_path / "d"), *said],
        ["prescribe", str(diagnosed), *said],
    ):
        capsys.readouterr()
        assert main(words) == 2, words
        assert "returns one tensor" in capsys.readouterr().err, words
    kept = vs.declare(small_vit(), output="zzz")  # for good: such a model may return more while it is trained
    assert exams.prediction(kept, images()).n == 8


def test_the_classes_of_the_data_decide_where_the_model_says_nothing() -> None:
    fashion = vs.load_data("fashion", split="test")
    plain, both = (
        exams.prediction(small_vit(FORMS[form]), fashion, limit=20) for form in ("tensor", "tuple")
    )
    assert both.accuracy == plain.accuracy
    assert len(fashion.classes) == CLASSES


def test_anatomy_ends_at_the_class_scores() -> None:
    class Projecting(type(small_vit())):  # type: ignore[misc]
        """Its second output goes through two residual layers more."""

        def forward(self, shown: Tensor) -> tuple[Tensor, Tensor]:
            features = self.forward_head(self.forward_features(shown), pre_logits=True)
            side = features
            for _ in range(2):
                side = side + self.blocks[0].mlp(side)
            return self.head(features), side

    model = Projecting().eval()
    names = [unit.name for unit in vs.anatomy(small_vit())]
    assert [unit.name for unit in vs.anatomy(vs.declare(model, output=0))] == names


def test_members_of_an_ensemble_and_what_averages() -> None:
    shown = images()[0]
    members = [small_vit(FORMS["tuple"]), small_vit(FORMS["tuple"])]
    with pytest.raises(UndecidedOutput):
        vs.surgery.deep_ensemble(members)
    whole = vs.surgery.deep_ensemble([vs.declare(member, output=1) for member in members])
    plain = small_vit()(shown).log_softmax(1)
    torch.testing.assert_close(class_scores(whole.eval(), whole(shown)), plain)
    assert len(list(Members(list(whole.members), 1).passes(shown, 0, 2))) == 2
    averaging, alone = (vs.surgery.ensemble(vs.surgery.mc_dropout(m), 2) for m in (members[0], small_vit()))
    assert torch.equal(class_scores(averaging, averaging(shown)), alone(shown))
    assert averaging(shown)[0].shape == (len(shown), 16)
    smoothing = vs.surgery.temporal(members[1])
    smoothing(shown)
    torch.testing.assert_close(class_scores(smoothing, smoothing(shown)), plain)


@dataclasses.dataclass
class Answers:
    scores: Tensor
    others: Tensor


class Answering(nn.Module):
    """Class scores that come in some form."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.net, self.form = small_vit(), form

    def forward(self, x: Tensor) -> object:
        scores = self.net(x)
        return {
            "object": Answers(scores, 2 * scores),
            "nested": {"a": {"scores": scores}, "b": [scores]},
            "dict": {"scores": scores, "others": 2 * scores},
        }[self.form]


@pytest.mark.parametrize("exam", [exams.variance, exams.prediction])
def test_an_object_of_the_models_own_is_read_like_any_other_output(exam) -> None:
    if exam is exams.prediction:
        with pytest.raises(
            UndecidedOutput, match=r"returns 'scores': .*, 'others': .*output='scores' or output='others'"
        ):
            exam(Answering("object"), images())
    found = exam(Answering("object"), images(), output="scores")
    assert found.table()["value"].equals(exam(small_vit(), images()).table()["value"])


@pytest.mark.parametrize("exam", [exams.variance, exams.prediction])
@pytest.mark.parametrize(
    ("form", "said", "message"),
    [
        (
            "dict",
            "logit",
            "output='logit' is none of what Answering returns: 'scores': 2?.*; say one of these",
        ),
        (
            "nested",
            "scores",
            "returns a dict of 'a', 'b', with no tensor but for what is nested deeper",
        ),
        ("nested", 0, "wrap the model so that it returns logits"),
    ],
)
def test_a_wrong_name_is_said_to_be_wrong(exam, form: str, said: str | int, message: str) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        exam(Answering(form), images(), output=said)
