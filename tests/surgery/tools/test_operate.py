"""Operating as the command line does, and operations as they are written."""

import json

import pytest
import torch

import vitscope as vs
from tests.surgery.checks import assert_equal, outputs
from vitscope.core.errors import BadArgument, VitscopeError
from vitscope.surgery.tools.operate import plan_operations, read_operation

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def by_hand() -> torch.nn.Module:
    torch.manual_seed(0)
    model = vs.create_model("preresnet_mini")
    return vs.surgery.smooth(vs.surgery.alternate(model, budget=2))


@pytest.mark.parametrize(
    "said",
    [
        ("alternate budget=2", "smooth"),
        ({"alternate": {"budget": 2}, "smooth": {}},),
        ({"alternate": {"budget": 2}}, "smooth"),
    ],
)
def test_text_and_dicts_do_the_same_as_the_functions(said) -> None:
    random = torch.get_rng_state()
    operated = vs.operate("preresnet_mini", *said)
    assert torch.equal(torch.get_rng_state(), random)
    assert_equal(outputs(operated.model, IMAGES), outputs(by_hand(), IMAGES))
    assert [entry["operation"] for entry in operated.done] == ["alternate", "smooth"]
    assert operated.comparison.largest_change > 0
    assert not operated.model.training


def test_arguments_by_name_are_those_of_the_one_operation() -> None:
    said = vs.operate("vit_mini", "localize", kernel=3, seed=1).done
    assert said == vs.operate("vit_mini", "localize kernel=3", seed=1).done


def test_a_module_is_changed_in_place() -> None:
    model = vs.surgery.smooth(vs.create_model("resnet_mini", pretrained=True))
    operated = vs.operate(model, "lesion layer2.1")
    assert operated.model is model
    assert [entry["operation"] for entry in operated.done] == ["lesion"]
    assert len(vs.surgery.record(model)) == 2


def test_what_is_refused_halfway_is_taken_back_whole() -> None:
    model = vs.create_model("resnet_mini", pretrained=True)
    said, keys = outputs(model, IMAGES), list(model.state_dict())
    with pytest.raises(VitscopeError, match=r"no unit 'layer9\.1'"):
        vs.operate(model, "smooth", "mc_dropout", "lesion layer9.1")
    assert_equal(outputs(model, IMAGES), said)
    assert (vs.surgery.record(model), list(model.state_dict())) == ([], keys)


def test_what_it_saves_is_read_again(tmp_path) -> None:
    operated = vs.operate("resnet_mini", "smooth", pretrained=True, out=tmp_path / "run")
    again = vs.create_model(tmp_path / "run")
    assert_equal(outputs(again, IMAGES), outputs(operated.model, IMAGES))
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["state"], run["options"]["operations"]) == ("done", [{"smooth": {}}])
    with pytest.raises(VitscopeError, match="holds a model already"):
        vs.operate("resnet_mini", "smooth", out=tmp_path / "run")


def test_nothing_to_change_is_a_warning_and_nothing_is_saved(tmp_path) -> None:
    with pytest.warns(vs.surgery.NoEffectWarning, match="no MSA unit"):
        operated = vs.operate("resnet_mini", "localize", out=tmp_path / "run")
    assert operated.done == ()
    assert not (tmp_path / "run").exists()


def test_an_example_reaches_every_operation() -> None:
    operated = vs.operate("resnet18", "smooth", {"lesion": {"unit": "layer1.1"}}, example=(3, 64, 64))
    assert [entry["options"]["example"] for entry in operated.done] == [[3, 64, 64]] * 2


@pytest.mark.parametrize(
    ("said", "options", "why"),
    [
        ((), {}, "no operation is named"),
        ((3,), {}, "operations is 3"),
        (("smooth",), {"num_classes": -1}, "num_classes is -1"),
        (("smooth",), {"seed": -1}, "seed is -1"),
        (("smooth",), {"out": ""}, "out is ''"),
        (("smooth",), {"outt": "x"}, "did you mean 'out'?"),
        (("localize",), {"kernle": 3}, "localize(): no argument 'kernle'; did you mean 'kernel'?"),
        (
            ("localize", "smooth"),
            {"kernel": 3},
            "one of an operation stands with it, as in 'localize kernel=5'",
        ),
        (("localise",), {"kernel": 3}, "no operation 'localise'; did you mean localize?"),
    ],
)
def test_mistakes_are_said_before_a_model_is_built(said, options, why, monkeypatch) -> None:
    monkeypatch.setattr("vitscope.surgery.tools.operate.create_model", None)
    with pytest.raises(BadArgument) as caught:
        vs.operate("resnet_mini", *said, **options)
    assert why in str(caught.value)


def test_what_is_for_a_name_is_refused_for_a_module() -> None:
    with pytest.raises(BadArgument, match="num_classes is 5 for a model that is built already"):
        vs.operate(vs.create_model("resnet_mini"), "smooth", num_classes=5)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("alternate", ("alternate", {})),
        ("alternate msa=0,1,1,2 window=7", ("alternate", {"msa": [0, 1, 1, 2], "window": 7})),
        ("alternate heads=3 extra-block=true", ("alternate", {"heads": [3], "extra_block": True})),
        ("alternate budget=none", ("alternate", {"budget": None})),
        ("mc-dropout p=3e-1", ("mc_dropout", {"p": 0.3})),
        ("mc_dropout 0.3 kinds=conv", ("mc_dropout", {"p": 0.3, "kinds": "conv"})),
        ("lesion blocks.3.attn", ("lesion", {"unit": "blocks.3.attn"})),
        ("lesion 12", ("lesion", {"unit": "12"})),
        ("extend msa", ("extend", {"kind": "msa"})),
        (
            "localize 3 layers=0,-1,blocks.1?.attn",
            ("localize", {"kernel": 3, "layers": [0, -1, "blocks.1?.attn"]}),
        ),
        ("localize layers=[2]", ("localize", {"layers": [2]})),
        ("smooth temperature=5", ("smooth", {"temperature": 5.0})),
        (
            "broadcast_context layers=all pyramid=a,b",
            ("broadcast_context", {"layers": "all", "pyramid": ["a", "b"]}),
        ),
    ],
)
def test_operations_are_read(text, wanted) -> None:
    assert read_operation(text) == wanted


def test_dicts_are_operations_in_order() -> None:
    said = {"alternate": {"budget": 4}, "smooth": None, "mc-dropout": {}}
    assert plan_operations(said) == [("alternate", {"budget": 4}), ("smooth", {}), ("mc_dropout", {})]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "an operation without a name"),
        ("smoth", "no operation 'smoth'; did you mean smooth?"),
        ("smooth heat=1", "smooth: no argument 'heat'"),
        ({"smooth": {"heat": 1}}, r"smooth\(\): no argument 'heat'"),
        ({"smooth": 3}, "smooth is 3; expected a dict of its arguments, as in {'smooth': {'where': ...}}"),
        ({"smooth": {3: 4}}, "expected a dict of its arguments"),
        ({3: {}}, "an operation is 3; expected text"),
        ({"smooth": {"temperature": -1}}, "temperature is -1"),
    ],
)
def test_mistakes_are_said(said, why) -> None:
    with pytest.raises(BadArgument, match=why):
        plan_operations(said)
