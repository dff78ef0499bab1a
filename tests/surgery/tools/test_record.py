"""The record of what was done: written, done again, undone, and refused when it cannot be."""

import json

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.surgery.checks import assert_equal, outputs
from vitscope.core.errors import BadResult, UnsupportedModel
from vitscope.models import save_model
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.record import (
    OPERATIONS,
    CannotOperate,
    Done,
    NoEffectWarning,
    operation,
    record,
    replay,
    undo,
)


class Shift(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


@pytest.fixture
def shift():
    """An operation that adds a number to the outputs of the modules it is given."""

    @operation
    def shift_outputs(model: nn.Module, modules: list[str], by: float = 1.0) -> Done:
        paths = [graft(model, path, Shift(by), "shift", "output") for path in modules]
        return Done({"modules": modules, "by": by}, modules, paths, why_none="no module was named")

    yield shift_outputs
    del OPERATIONS["shift_outputs"]


def test_an_operation_works_in_place_and_is_written_down(shift) -> None:
    model = vs.create_model("vit_mini")
    assert shift(model, ["blocks.0.mlp"], by=2.0) is model
    assert record(model) == [
        {
            "operation": "shift_outputs",
            "options": {"modules": ["blocks.0.mlp"], "by": 2.0},
            "places": ["blocks.0.mlp"],
            "grafts": ["blocks.0.mlp.shift"],
        }
    ]
    json.dumps(record(model))


def test_nothing_to_do_warns_and_records_nothing(shift) -> None:
    model = vs.create_model("vit_mini")
    with pytest.warns(NoEffectWarning, match="no module was named"):
        shift(model, [])
    assert record(model) == []


def test_saved_and_loaded_with_learned_values(shift, tmp_path) -> None:
    model = vs.create_model("vit_mini", pretrained=True)
    shift(shift(model, ["blocks.0.mlp", "norm"]), ["blocks.0.mlp"], by=-3.0)
    with torch.no_grad():
        model.get_submodule("norm.shift").by.fill_(0.25)
    images = torch.randn(2, 3, 32, 32)
    save_model(model, tmp_path, [str(i) for i in range(10)])
    again = vs.create_model(tmp_path)
    assert_equal(outputs(again, images), outputs(model, images))
    assert record(again) == record(model)
    assert json.loads((tmp_path / "config.json").read_text())["surgery"] == record(model)


def test_undo_takes_back_the_last_operation(shift) -> None:
    model = vs.create_model("vit_mini", pretrained=True)
    images = torch.randn(2, 3, 32, 32)
    untouched = outputs(model, images)
    shift(model, ["blocks.0.mlp"])
    once = outputs(model, images)
    shift(model, ["blocks.0.mlp", "norm"])
    assert_equal(outputs(undo(model), images), once)
    assert_equal(outputs(undo(model), images), untouched)
    with pytest.raises(CannotOperate, match="nothing to undo"):
        undo(model)


def test_what_replaced_modules_cannot_be_undone() -> None:
    model = vs.create_model("vit_mini")
    model.vitscope_surgery = [{"operation": "alternate", "options": {}, "places": ["layer4.2"]}]
    with pytest.raises(CannotOperate, match="build the model again"):
        undo(model)


def test_a_record_that_does_not_fit_is_refused(shift) -> None:
    model = vs.create_model("vit_mini")
    with pytest.raises(BadResult, match="pip install -U vitscope"):
        replay(model, [{"operation": "trepan", "options": {}}])
    with pytest.raises(BadResult, match="another shape"):
        replay(model, [{"operation": "shift_outputs", "options": {"modules": []}}])
    with pytest.raises(BadResult, match=r"is damaged: 'shift_outputs'.*no argument 'unknown'"):
        replay(model, [{"operation": "shift_outputs", "options": {"unknown": 1}}])


def test_wrapped_models_are_refused_with_what_to_pass_instead(shift) -> None:
    model = nn.DataParallel(vs.create_model("vit_mini"))
    with pytest.raises(UnsupportedModel, match=r"model\.module"):
        shift(model, ["blocks.0.mlp"])


def test_only_plain_values_are_recorded() -> None:
    @operation
    def careless(model: nn.Module) -> Done:
        return Done({"weights": torch.zeros(2)}, ["somewhere"])

    try:
        with pytest.raises(TypeError, match="plain values"):
            careless(vs.create_model("vit_mini"))
    finally:
        del OPERATIONS["careless"]
