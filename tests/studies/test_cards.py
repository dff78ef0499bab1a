"""Cards and scales: every card is a study at every scale it names, and the papers' is what the papers say."""

from dataclasses import replace

import pytest

from vitscope.core.errors import BadArgument, VitscopeError
from vitscope.core.names import EXAM_NAMES
from vitscope.recipes.named import get_recipe
from vitscope.studies.cards import ClaimCard, card_study, list_cards, throughputs
from vitscope.studies.resolve import ResolvedArm
from vitscope.studies.scales import SCALE_NAMES, SCALES, Scale, Setting, read_scale
from vitscope.studies.stand_ins import with_stand_ins
from vitscope.studies.study import Arm, Study

WRITTEN = [name for name in SCALE_NAMES if (SCALES / f"{name}.yaml").exists()]
PAIRS = [(card, name) for card in list_cards() for name in WRITTEN if name in card.scales]


def paper(claim: str) -> Study:
    (card,) = list_cards([claim])
    return card_study(card, read_scale("paper"))


def recipe_of(arm: Arm) -> dict:
    return ResolvedArm(arm, None, False).choices


@pytest.mark.parametrize(("card", "scale"), PAIRS, ids=[f"{card.claim}-{scale}" for card, scale in PAIRS])
def test_a_card_is_a_study_at_every_scale_that_it_names(card: ClaimCard, scale: str) -> None:
    study = card_study(card, read_scale(scale))
    assert [arm.name for arm in study.arms] == list(card.arms)
    assert len(study.comparisons) == len(card.comparisons)
    assert {look.exam for look in study.looks} <= set(EXAM_NAMES)
    assert study.compared == set(card.arms)  # no arm is trained for nothing
    there, _ = with_stand_ins(study, read_scale(scale))
    for arm in there.arms:  # recipes and operations are there, and take what they are given
        ResolvedArm(arm, None, False)
    different = [(a.model, a.arguments, a.operations, a.changes, a.fraction) for a in study.arms]
    for one in study.comparisons:
        first, second = (study.arm(name) for name in (one.of or one.arms[0], one.against or one.arms[-1]))
        if one.against:
            assert different[study.arms.index(first)] != different[study.arms.index(second)], one.statement


def test_a_claim_can_be_named_by_its_section() -> None:
    assert [card.claim for card in list_cards(["e"])] == ["E1", "E2", "E3", "E4", "E5", "E6"]
    assert [card.claim for card in list_cards(["c7", "A6b"])] == ["C7", "A6b"]
    with pytest.raises(BadArgument, match=r"no claim 'C77'; did you mean C7"):
        list_cards(["C77"])


def test_a_card_is_refused_at_a_scale_that_it_does_not_name() -> None:
    (card,) = list_cards(["F5"])
    with pytest.raises(VitscopeError, match="F5 can be studied at scale paper only, not at smoke"):
        card_study(card, read_scale("smoke"))


def test_strong_augmentation_is_how_the_paper_trains_and_weak_is_resizing_and_cropping() -> None:
    study = paper("F1")
    assert recipe_of(study.arm("strong")) == recipe_of(paper("C1").arm("vit"))
    assert recipe_of(study.arm("strong"))["epochs"] == 300
    assert recipe_of(study.arm("strong"))["batch_size"] == 96
    weak = {key: value for key, value in get_recipe("weak").to_dict().items() if key != "name"}
    assert recipe_of(study.arm("weak")) == {**weak, "milestones": []}
    assert recipe_of(study.arm("resnet_weak")) == {**weak, "milestones": []}


def test_without_augmentation_of_its_own_a_smoke_arm_is_weak() -> None:
    (card,) = list_cards(["C5"])
    study = card_study(card, read_scale("smoke"))
    assert recipe_of(study.arm("vit")) == recipe_of(study.arm("weak"))
    assert recipe_of(study.arm("vit"))["auto_augment"] is None
    assert recipe_of(study.arm("strong"))["auto_augment"] == "rand-m9-n2-mstd1.0"


def test_repeated_augmentation_is_off_for_vits_with_context_broadcasting_alone() -> None:
    repeats = {arm.name: recipe_of(arm)["repeats"] for arm in paper("A8").arms}
    assert repeats == {"vit": 3, "se": 3, "cb": 1}
    assert {arm.name: recipe_of(arm)["repeats"] for arm in paper("F6").arms} == {
        **{"pit": 3, "pit_cb": 3, "mixer": 3, "mixer_cb": 3}
    }
    assert {recipe_of(arm)["repeats"] for arm in paper("E6").arms if arm.operations} == {1}


def test_heads_change_at_half_the_depth_and_the_same_embedding() -> None:
    arms = {arm.name: arm.arguments for arm in paper("C6").arms}
    assert {name: a["num_heads"] for name, a in arms.items() if name.startswith("heads")} == {
        **{"heads1": 1, "heads2": 2, "heads4": 4, "heads8": 8}
    }
    assert [arms[name]["head_dim"] for name in ("narrow", "heads4", "wide")] == [32, 64, 128]
    assert all(a["depth"] == 6 and "embed_dim" not in a for a in arms.values())


def test_published_throughputs_belong_to_the_models_that_they_were_measured_on() -> None:
    scale = read_scale("paper")
    cards = {card.claim: card for card in list_cards()}
    assert throughputs(cards["C9"], scale) == {
        **{"resnet": 320, "cnn": 394, "alternet": 473, "vit": 434, "pit": 364}
    }
    assert throughputs(cards["A3"], scale) == {"cnn": 394, "alternet": 473}  # not what is like AlterNet
    assert throughputs(cards["C8"], scale) == {"patch2": 434}
    assert throughputs(cards["F9"], scale) == {}


SETTING = Setting("fashion", {"vit": {"model": "vit_mini"}, "odd": {"like": "vit", "width": 3}})
CARD = ClaimCard(
    **{"claim": "Z1", "title": "", "statement": "", "definition": "", "published": "", "paper": "hdv"},
    arms={"vit": {"model": "vit"}},
    exams=("prediction",),
    comparisons=(),
)


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ({"model": "vti"}, r"card Z1: arm vit: no model 'vti'; did you mean vit"),
        ({"model": "odd"}, r"card Z1: arm vit: model odd: no 'width'"),
        ({"model": "vit", "changes": "mild"}, r"changes is 'mild'; expected weak or strong"),
        ({"model": "vit", "changes": "weak"}, r"does not say how weak and strong augmentation differ"),
    ],
)
def test_what_a_scale_does_not_say_is_refused(arm: dict, message: str) -> None:
    scale = Scale("smoke", "", 1, {"hdv": SETTING}, {"prediction": None})
    with pytest.raises(BadArgument, match=message):
        card_study(replace(CARD, arms={"vit": arm}), scale)


def test_a_digest_stands_for_what_a_card_says() -> None:
    assert replace(CARD).digest == CARD.digest
    assert replace(CARD, statement="Another.").digest != CARD.digest
    assert len({card.digest for card in list_cards()}) == len(list_cards())
