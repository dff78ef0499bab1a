"""Options of a training: as an object, by name, or both; each is checked by its type, wherever it comes from."""

import json
from pathlib import Path
from typing import Any

import pytest

import vitscope as vs
from vitscope.core.errors import BadArgument
from vitscope.training import TrainOptions, train


def test_those_by_name_stand_in_the_place_of_those_of_the_object(tmp_path: Path) -> None:
    data = vs.load_data("fashion", split="train").subset(range(8))
    options = TrainOptions(epochs=3, batch_size=8, seed=5, changes={"warmup_epochs": 0.0}, progress=False)
    done = train("resnet_mini", data, "mini", tmp_path, options, held_out=data, epochs=1)
    setting = json.loads((tmp_path / "run.json").read_text())["options"]
    assert done.epochs == setting["recipe"]["epochs"] == 1
    assert (setting["recipe"]["batch_size"], setting["recipe"]["warmup_epochs"]) == (8, 0.0)
    assert setting["seed"] == 5


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"epochs": 0}, "epochs is 0; expected a whole number, 1 or more, or None"),
    ({"monitor": "variance"}, "monitor is 'variance'; expected several of: text"),
    ({"track": "tensorbord"}, "; did you mean tensorboard\\?"),
    ({"device": 3}, "device is 3; expected cpu, cuda, "),
]


@pytest.mark.parametrize(("given", "expected"), WRONG)
def test_the_object_and_the_call_refuse_the_same_in_the_same_words(given: Any, expected: str) -> None:
    said = []
    for call in (lambda: TrainOptions(**given), lambda: train("vit_mini", "fashion", **given)):
        with pytest.raises(BadArgument, match=expected) as refused:
            call()
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadArgument, match=r"^train\(\): no argument 'epoch'; did you mean 'epochs'\?$"):
        train("vit_mini", "fashion", epoch=1)
    with pytest.raises(
        BadArgument, match=r"^TrainOptions\(\): no argument 'epoch'; did you mean 'epochs'\?$"
    ):
        TrainOptions(epoch=1)  # type: ignore[call-arg]
    with pytest.raises(BadArgument, match=r"^train\(\): no argument 'modle'; did you mean 'model'\?$"):
        train(modle="vit_mini", data="fashion", epochs=1)  # type: ignore[call-arg]
    with pytest.raises(BadArgument, match="'data' is missing"):
        train("vit_mini", epochs=1)  # type: ignore[call-arg]
