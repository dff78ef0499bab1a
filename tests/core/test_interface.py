"""How a model is spoken to: said for good, for a block, in a run folder, and to every exam."""

import copy
import importlib
import inspect

import pytest
import torch
from torch import nn

import vitscope as vs
from vitscope import exams
from vitscope.cli.app import read_options
from vitscope.core.errors import BadArgument
from vitscope.core.interface import Interface, declared, interface_of
from vitscope.data import data_config
from vitscope.engine.cache_key import exam_keys
from vitscope.engine.exam import EXAMS, Procedure
from vitscope.engine.takes_interface import Request, takes_interface
from vitscope.models import create_model, save_model

SAID = {"output": "logits", "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)}
STREAMING = ["prediction", "fourier", "variance", "cka", "attention", "softmax_gradient", "low_pass"]
OTHERS = ["examine", "diagnose", "hessian", "hessian_density", "landscape", "landscape_line"]


def test_nothing_is_said_until_it_is_and_then_it_stays_in_copies() -> None:
    model = nn.Linear(3, 3)
    assert interface_of(model) == Interface(None, None, None)
    assert vs.declare(model, output=1) is model
    assert vs.declare(model, mean=0.5, std=[0.25, 0.5]) is model
    assert interface_of(model) == interface_of(copy.deepcopy(model)) == Interface(1, (0.5,), (0.25, 0.5))
    assert interface_of(nn.DataParallel(model)).output == 1


def test_a_block_leaves_the_model_as_it_was_also_after_an_error() -> None:
    model = nn.Linear(3, 3)
    before = dict(vars(model))
    with declared(model, output="logits") as said:
        assert said == interface_of(model) == Interface("logits")
    assert vars(model) == before
    vs.declare(model, output="logits", std=(0.5,))
    with pytest.raises(ZeroDivisionError), declared(nn.DataParallel(model), output=1) as said:
        _ = 1 / (said != Interface(1, None, (0.5,)))
    assert interface_of(model) == Interface("logits", None, (0.5,))


@pytest.mark.parametrize("output", [True, 1.5, ["logits"]])
def test_an_output_has_a_name_or_a_place(output: object) -> None:
    with pytest.raises(BadArgument, match=r"output is .*; expected text, or a whole number"):
        vs.declare(nn.Linear(3, 3), output=output)  # type: ignore[arg-type]


@pytest.mark.parametrize("mean", ["a", [], [None]])
def test_a_normalisation_is_made_of_numbers(mean: object) -> None:
    with pytest.raises(BadArgument, match=r"mean is .*; expected .*number"):
        vs.declare(nn.Linear(3, 3), mean=mean)  # type: ignore[arg-type]


def test_a_function_takes_the_words_by_name_and_hands_on_the_rest() -> None:
    @takes_interface
    def ask(model: nn.Module, times: int, again: int = 1) -> list[Interface]:
        """Asks."""
        return [interface_of(model)] * (times + again)

    model = nn.Linear(3, 3)
    assert ask(model, 1) == [Interface()] * 2
    assert ask(model, times=2, again=0, output=0) == [Interface(0)] * 2
    assert ask(model=model, times=1, again=0, **SAID) == [Interface(*SAID.values())]
    assert interface_of(model) == Interface()
    assert ask.__doc__ == "Asks."
    assert [*inspect.signature(ask).parameters] == ["model", "times", "again", "output", "mean", "std"]
    with pytest.raises(TypeError, match="outputs"):
        ask(model, 1, outputs=0)


@pytest.mark.parametrize("name", [*EXAMS, *STREAMING, *OTHERS, "evaluate"])
def test_every_exam_takes_them(name: str) -> None:
    public = vs.evaluate if name == "evaluate" else getattr(exams, name)
    procedure = EXAMS.get(name)
    for function in (public, procedure.run if isinstance(procedure, Procedure) else public):
        if name == "trajectory" and function is public:
            continue  # of checkpoints' weights: asks the model nothing
        found = inspect.signature(function).parameters
        for word in SAID:
            assert found[word].kind is inspect.Parameter.KEYWORD_ONLY, (name, word)
            assert found[word].default is None


def test_a_run_folder_keeps_it(tmp_path) -> None:
    model = create_model("vit_mini", num_classes=4)
    save_model(vs.declare(model, output=0, std=0.25), tmp_path, list("abcd"))
    assert interface_of(create_model(tmp_path)) == Interface(0, None, (0.25,))


def test_a_result_is_not_taken_for_one_of_another_output() -> None:
    model, data = create_model("vit_mini"), (torch.zeros(2, 3, 32, 32), torch.zeros(2, dtype=torch.long))

    def key() -> str | None:
        return exam_keys(model, data, [EXAMS["fourier"]], Request())["fourier"]

    plain = key()
    assert data_config(model)
    with declared(model, output=0):
        assert key() != plain
    assert key() == plain


@pytest.mark.parametrize(
    ("verb", "subject"),
    [("diagnose", ["a"]), ("evaluate", ["a"]), ("compare", ["a", "b"]), ("prescribe", ["runs/a"])],
)
def test_the_verbs_that_measure_take_them(verb: str, subject: list[str]) -> None:
    options = importlib.import_module(f"vitscope.cli.{verb}").Options
    words = ["--mean", "0.5", "0.4", "0.3", "--std", "0.2"]
    for given, output in (("1", 1), ("logits", "logits")):
        said = read_options(options, [*subject, "--output", given, *words], verb)
        assert Interface(said.output, said.mean, said.std) == Interface(output, (0.5, 0.4, 0.3), (0.2,))


def test_what_is_no_number_is_refused_in_plain_words() -> None:
    with pytest.raises(BadArgument, match=r"^mean is nan; expected a number, or several, or None$"):
        vs.declare(create_model("vit_mini"), mean=float("nan"))
    with pytest.raises(
        BadArgument, match=r"^std is \['a'\] \('a' in it\); expected a number, or several, or None$"
    ):
        vs.declare(create_model("vit_mini"), std=["a"])  # type: ignore[list-item]
