"""What an operation takes stands in its signature, and anything else is refused in one sentence, model untouched."""

import inspect
import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from vitscope.cli.app import main
from vitscope.core.errors import BadArgument, BadResult
from vitscope.models import save_model
from vitscope.surgery.tools.record import checked_call

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("extend", {"kind": "msa", "heads": -3}, "heads is -3; expected a whole number from 1"),
    ("extend", {"kind": "conv"}, "kind is 'conv'; expected msa or mlp"),
    ("extend", {}, "'kind' is missing"),
    ("temporal", {"rate": float("nan")}, "rate is nan; expected a number, 0 or more"),
    ("temporal", {"previous": -1}, "previous is -1; expected a whole number, 0 or more"),
    ("temporal", {"previous": 2.5}, "previous is 2.5; expected a whole number"),
    ("smooth", {"temperature": float("nan")}, "temperature is nan; expected a number, more than 0"),
    ("smooth", {"temperature": float("inf")}, "temperature is inf"),
    ("smooth", {"temperature": "10"}, "temperature is '10'"),
    ("smooth", {"where": "stages"}, "where is 'stages'; expected subsampling or stage_ends"),
    ("smooth", {"temperature": 0.0}, "temperature is 0.0"),
    ("broadcast_context", {"at": "top"}, "at is 'top'"),
    ("broadcast_context", {"tokens": "words"}, "tokens is 'words'"),
    ("mc_dropout", {"at": "front"}, "at is 'front'"),
    ("mc_dropout", {"p": 1.0}, "p is 1.0"),
    ("temporal", {"rate": -1.0}, "rate is -1.0"),
    ("smooth", {"prob": "tanh_rely"}, "did you mean tanh_relu?"),
    ("smooth", {"grow": "false"}, "grow is 'false'; expected true or false"),
    ("localize", {"kernel": 2.5}, "kernel is 2.5; expected a whole number"),
    ("localize", {"kernel": "abc"}, "kernel is 'abc'; expected a whole number"),
    ("localize", {"kernel": 0}, "kernel is 0; expected a whole number, 1 or more"),
    ("localize", {"kernel": True}, "kernel is True"),
    ("localize", {"kernl": 3}, "no argument 'kernl'; did you mean 'kernel'?"),
    ("broadcast_context", {"layers": 3}, "layers is 3; expected all, upper, lower"),
    ("broadcast_context", {"layers": "3"}, "a position stands in a list"),
    ("broadcast_context", {"layers": [1.5]}, "1.5 in it"),
    ("broadcast_context", {"layers": None}, "layers is None"),
    ("broadcast_context", {"pyramid": 4}, "pyramid is 4"),
    ("broadcast_context", {"kind": "cbs"}, "kind is 'cbs'; expected one of cb, cb_s"),
    ("mc_dropout", {"p": 1.5}, "p is 1.5; expected a number, more than 0 and less than 1"),
    ("mc_dropout", {"p": float("nan")}, "p is nan"),
    ("mc_dropout", {"p": 0}, "p is 0"),
    ("mc_dropout", {"kinds": "convs"}, "kinds is 'convs'"),
    ("mc_dropout", {"kinds": ["conv", 3]}, "3 in it"),
    ("alternate", {"msa": [-1]}, "msa is [-1] (-1 in it)"),
    ("alternate", {"msa": 4}, "msa is 4; expected several of"),
    ("alternate", {"budget": 0}, "budget is 0; expected a whole number, 1 or more"),
    ("alternate", {"heads": 0}, "heads is 0; expected several of"),
    ("alternate", {"heads": [0, 1]}, "0 in it"),
    ("alternate", {"heads": [10**8]}, "100000000 in it"),
    ("alternate", {"window": -1}, "window is -1"),
    ("alternate", {"last": 1.0}, "last is 1.0"),
    ("alternate", {"extra_block": "yes"}, "extra_block is 'yes'; expected true or false"),
    ("ensemble", {"passes": 0}, "passes is 0; expected a whole number, 1 or more"),
    ("ensemble", {"seed": -1}, "seed is -1"),
    ("squeeze_excite", {"ratio": 0}, "ratio is 0; expected a whole number, 1 or more"),
    ("squeeze_excite", {"where": "conv"}, "where is 'conv'"),
    ("uniform_heads", {"variant": "D"}, "variant is 'D'; expected one of A, B, C"),
    ("pool_tokens", {"class_token": True}, "class_token is True; expected keep or drop"),
    ("lesion", {"unit": 3}, "unit is 3; expected text, or a unit of vs.anatomy(model)"),
    ("lesion", {"unit": "blocks.0.attn", "part": "middle"}, "part is 'middle'"),
    ("smooth", {"example": (3, -1, 32)}, "example is (3, -1, 32)"),
    ("smooth", {"example": (3, 32)}, "example is (3, 32)"),
    ("smooth", {"example": "cat"}, "example is 'cat'"),
]


@pytest.mark.parametrize(("name", "options", "said"), WRONG, ids=[f"{n}-{o}" for n, o, _ in WRONG])
def test_what_is_not_allowed_is_refused_before_the_model_is_touched(name, options, said) -> None:
    class Untouched(nn.Module):
        def forward(self, x: Any) -> Any:
            raise AssertionError("the model was run")

    model = Untouched()
    with pytest.raises(BadArgument) as caught:
        vs.surgery.OPERATIONS[name](model, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert vs.surgery.record(model) == []


def test_a_model_is_a_module() -> None:
    for name in vs.surgery.OPERATIONS:
        with pytest.raises(BadArgument, match="model is 'resnet_mini'; expected a model"):
            vs.surgery.OPERATIONS[name]("resnet_mini", *(["msa"] if name in ("extend", "lesion") else []))


def test_numbers_of_numpy_are_written_down_as_plain_ones() -> None:
    model = vs.surgery.mc_dropout(vs.create_model("vit_mini"), np.float64(0.25), layers=[np.int64(0)])
    vs.surgery.ensemble(model, np.int64(2))
    options = [entry["options"] for entry in vs.surgery.record(model)]
    assert (options[0]["p"], options[1]["passes"]) == (0.25, 2)
    json.dumps(options)


def test_every_argument_of_an_operation_has_a_type() -> None:
    for name, operation in vs.surgery.OPERATIONS.items():
        for parameter in inspect.signature(inspect.unwrap(operation)).parameters.values():
            assert parameter.annotation not in (parameter.empty, Any), f"{name} {parameter.name}"


def test_arguments_can_be_checked_without_a_model() -> None:
    assert checked_call("localize", {"kernel": np.int64(3)}) == {"kernel": 3}
    with pytest.raises(BadArgument, match="kernel is 0"):
        checked_call("localize", {"kernel": 0})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: vs.build_up("resnet_mini", budget=0, out="x"), "budget is 0"),
        (
            lambda: vs.build_up("resnet_mini", budget=2, out="x", min_gain=float("nan")),
            "min_gain is nan",
        ),
        (lambda: vs.build_up("resnet_mini", budget=2, out=""), "out is ''"),
        (
            lambda: vs.build_up("resnet_mini", budget=2, out="x", backend="spark"),
            "backend is 'spark'",
        ),
        (lambda: vs.build_up("resnet_mini", out="x"), "'budget' is missing"),
        (lambda: vs.surgery.deep_ensemble("resnet_mini"), "members is 'resnet_mini'"),
        (lambda: vs.surgery.deep_ensemble([3]), "3 in it"),
        (lambda: vs.surgery.replay("resnet_mini", []), "model is 'resnet_mini'"),
        (lambda: vs.surgery.undo("resnet_mini"), "model is 'resnet_mini'"),
        (lambda: vs.surgery.reset(3), "model is 3"),
        (lambda: vs.surgery.record(3), "model is 3"),
        (lambda: vs.surgery.smooth_stream(torch.ones(2, 3), rate=float("nan")), "rate is nan"),
        (lambda: vs.surgery.smooth_stream(torch.ones(2, 3), previous=-1), "previous is -1"),
        (lambda: vs.surgery.smooth_stream([1.0]), "probabilities is"),
        (lambda: vs.surgery.sampling(nn.Identity(), seed=1.5), "seed is 1.5"),
        (lambda: vs.surgery.sampling(nn.Identity(), own_dropout="no"), "own_dropout is 'no'"),
        (lambda: vs.surgery.Before("resnet_mini"), "model is 'resnet_mini'"),
        (lambda: vs.surgery.Before(vs.create_model("resnet_mini")).compare("x"), "model is 'x'"),
    ],
)
def test_the_other_functions_of_surgery_check_too(call, said, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadArgument) as caught:
        call()
    assert said in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--localize", "kernel=abc"], "--localize kernel is 'abc'; expected a whole number, 1 or more"),
        (["--localize", "kernel=2.5"], "--localize kernel is '2.5'; expected a whole number"),
        (["--localize", "kernel=1e1"], "--localize kernel is '1e1'"),
        (["--localize", "kernel="], "--localize kernel is ''"),
        (["--localize", "kernl=3"], "--localize: no argument 'kernl'; did you mean 'kernel'?"),
        (["--localize", "kernel=3", "kernel=5"], "--localize kernel is given twice"),
        (["--localize", "3", "kernel=5"], "--localize kernel is given twice"),
        (["--localize", "3", "all", "7"], "--localize takes kernel, layers; 3 words came"),
        (["--localize", "model=3"], "--localize: no argument 'model'"),
        (["--localize", "example=3,32,32"], "--localize: no argument 'example'"),
        (["--extend"], "--extend needs kind"),
        (["--extend", "conv"], "--extend kind is 'conv'; expected msa or mlp"),
        (["--extend", "msa", "heads=-3"], "--extend heads is '-3'; expected a whole number from 1"),
        (["--smooth", "grow=yes"], "--smooth grow is 'yes'; expected true or false"),
        (["--temporal", "rate=nan"], "--temporal rate is 'nan'; expected a number, 0 or more"),
        (
            ["--broadcast-context", "layers=3"],
            "--broadcast-context layers is '3' (a position stands in a list",
        ),
        (["--mc-dropout", "kinds=conv,x"], "--mc-dropout kinds is 'conv,x' ('x' in it)"),
        (["--alternate", "msa=0,1,-1"], "--alternate msa is '0,1,-1' ('-1' in it)"),
        (["--alternate", "msa=0,,1"], "--alternate msa is '0,,1' ('' in it)"),
        (["--smooth", "--localize", "kernel=abc"], "--localize kernel is 'abc'"),
    ],
)
def test_on_the_command_line_the_flag_is_named_and_no_model_is_built(
    words, said, capsys, monkeypatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the model was built")

    monkeypatch.setattr("vitscope.surgery.tools.operate.create_model", refuse)
    assert main(["operate", "vit_mini", *words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kernel": "abc"}, "kernel is 'abc'"),
        ({"kernel": 3, "layers": 7}, "layers is 7"),
        ({"kernel": 3, "unknown": 7}, "no argument 'unknown'"),
        ({"kernel": 3, "model": 7}, "no argument 'model'"),
        ({"kernel": 3, "layers": ["blocks.99.attn"]}, r"no msa unit 'blocks\.99\.attn'"),
        (
            {"kernel": 3, "layers": "uper"},
            r"'uper'; did you mean 'upper'\? it has .*all, upper, lower are words",
        ),
        ([], "is damaged"),
    ],
)
def test_a_record_with_wrong_values_is_refused_in_words(options, said, tmp_path) -> None:
    save_model(vs.surgery.localize(vs.create_model("vit_mini"), 3), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["surgery"][0]["options"] = options
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadResult, match=said):
        vs.create_model(tmp_path)


@pytest.mark.parametrize("surgery", ["smooth", [3], {"smooth": {}}])
def test_a_record_that_is_no_list_of_operations_is_damaged(surgery, tmp_path) -> None:
    save_model(vs.create_model("vit_mini"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "surgery": surgery}))
    with pytest.raises(BadResult, match="damaged"):
        vs.create_model(tmp_path)
