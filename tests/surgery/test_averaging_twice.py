"""What averages already is not averaged again where that makes no sense; the reason and the remedy are said."""

import pytest
import torch
from torch import nn

import vitscope as vs
from tests.surgery.checks import assert_equal, outputs, short

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def with_dropout() -> nn.Module:
    return vs.surgery.mc_dropout(short("vit_mini", depth=2)).eval()


def of_members(*operations: str) -> nn.Module:
    return vs.surgery.deep_ensemble(
        [vs.operate(short("vit_mini", depth=2), *operations).model for _ in range(2)]
    )


CASES = {
    "ensemble twice": (
        lambda: vs.surgery.ensemble(with_dropout(), 2),
        "ensemble",
        "averages over passes already",
    ),
    "ensemble of models": (
        lambda: of_members("mc_dropout"),
        "ensemble",
        "each of them before .*deep_ensemble",
    ),
    "ensemble of averages": (
        lambda: of_members("mc_dropout", "ensemble 2"),
        "ensemble",
        "over passes already",
    ),
    "ensemble after temporal": (
        lambda: vs.surgery.temporal(with_dropout()),
        "ensemble",
        "would take every pass for a frame; .*ensemble first, temporal after it",
    ),
    "temporal twice": (
        lambda: vs.surgery.temporal(short("vit_mini", depth=2)),
        "temporal",
        "averages over frames already",
    ),
    "temporal of models that do": (
        lambda: of_members("temporal"),
        "temporal",
        "averages over frames already",
    ),
    "dropout twice": (with_dropout, "mc_dropout", r"'blocks\.0\.attn' has MC dropout there already"),
    "dropout after ensemble": (
        lambda: vs.surgery.ensemble(with_dropout(), 2),
        "mc_dropout",
        "would not draw it; .*mc_dropout first, ensemble after it",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_with_a_reason(name: str) -> None:
    make, operation, why = CASES[name]
    model = make().eval()
    said = outputs(model, IMAGES)
    if "temporal" in name:
        vs.surgery.reset(model)
    done = vs.surgery.record(model)
    with pytest.raises(vs.surgery.CannotOperate, match=why):
        vs.surgery.OPERATIONS[operation](model)
    assert vs.surgery.record(model) == done
    assert_equal(outputs(model, IMAGES), said)


def test_single_passes_of_a_model_that_averages_are_not_to_be_had() -> None:
    model = vs.surgery.ensemble(with_dropout(), 2)
    with (
        pytest.raises(vs.surgery.CannotOperate, match=r"averages over passes by itself.*undo"),
        vs.surgery.sampling(model),
    ):
        pass


def test_what_makes_sense_goes_on() -> None:
    model = short("vit_mini", depth=2)
    vs.surgery.mc_dropout(model, 0.1, layers="lower")
    vs.surgery.mc_dropout(model, 0.3, layers="upper")
    vs.surgery.mc_dropout(model, 0.2, at="end")
    vs.surgery.temporal(vs.surgery.ensemble(model, 2))
    vs.surgery.undo(vs.surgery.undo(model))
    vs.surgery.ensemble(model, 3)
    assert len(vs.surgery.record(model)) == 4
    vs.surgery.temporal(of_members("mc_dropout", "ensemble 2"))
