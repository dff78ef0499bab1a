import dataclasses

import pytest

from tests.studies.small_study import a_study, comparison
from vitscope.claims.verdict import Rule
from vitscope.core.errors import BadArgument
from vitscope.studies.cards import card_study, list_cards
from vitscope.studies.design import Look
from vitscope.studies.graph import plan_study
from vitscope.studies.known_quantities import check_quantities
from vitscope.studies.scales import read_scale
from vitscope.studies.store import Store

ABOVE = Rule("above", 0.0)


@pytest.mark.parametrize(
    ("quantity", "said"),
    [
        ("prediction.acuracy", "no quantity 'prediction.acuracy'; did you mean accuracy"),
        ("fourier.chnge[kind=msa]", r"no quantity 'fourier.chnge\[kind=msa\]'; did you mean change"),
        ("fourier.late_msa_chnge", "did you mean late_msa_change"),
        ("training.train_los", "did you mean train_loss"),
        ("hessian.sharpness", "there are: nep, ape"),
    ],
)
def test_a_misspelt_quantity_is_refused_before_anything_runs(tmp_path, quantity, said):
    study = a_study(comparison("prediction.nll", ABOVE), comparison(quantity, ABOVE, name="second"))
    with pytest.raises(BadArgument, match=f"comparison second: .*{said}"):
        plan_study(study, Store(tmp_path))
    assert not any(tmp_path.iterdir())


def test_so_is_one_that_a_slope_is_against():
    one = dataclasses.replace(
        comparison("prediction.nll", ABOVE, None, "slope"),
        of=None,
        slope={"plain": "hessian.ap", "broadcast": "hessian.ape"},
    )
    with pytest.raises(BadArgument, match=r"comparison slope: no quantity 'hessian.ap'; did you mean ape"):
        check_quantities(a_study(one))


@pytest.mark.parametrize(
    "quantity",
    [
        "prediction.temperature",
        "fourier.change[kind=no such kind]",
        "attention.entropy_share",
        "training.box_ap",
        "training.parameters",
    ],
)
def test_what_may_be_measured_is_taken(quantity):
    check_quantities(a_study(comparison(quantity, ABOVE)))


def test_groups_of_units_are_known():
    study = dataclasses.replace(a_study(), looks=(Look("lesion"),))
    for quantity in (
        "lesion.drop",
        "lesion.drop conv first",
        "lesion.drop msa last minus mlp last",
        "lesion.intact miou",
    ):
        check_quantities(dataclasses.replace(study, comparisons=(comparison(quantity, ABOVE),)))
    with pytest.raises(
        BadArgument, match=r"no quantity 'lesion.drop conv frist'; did you mean drop conv first"
    ):
        check_quantities(
            dataclasses.replace(study, comparisons=(comparison("lesion.drop conv frist", ABOVE),))
        )


@pytest.mark.parametrize("card", list_cards(), ids=lambda card: card.claim)
def test_quantities_of_all_cards_are_known(card):
    for scale in card.scales:
        check_quantities(card_study(card, read_scale(scale)))
