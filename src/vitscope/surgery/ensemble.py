"""Ensembles: the average of several predictions, in probability space.

    log p(y | x) = log 1/N sum_i softmax(f(x; w_i))_y

`ensemble`: the w_i are N sampled networks of one model with MC dropout; `deep_ensemble`: N models. What comes out
are logarithms of probabilities, which softmax and cross-entropy take like logits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import example_batch
from vitscope.core.arguments import Seed, checked
from vitscope.core.interface import declare, interface_of
from vitscope.core.outputs import Place, class_scores, scores_at
from vitscope.data import class_count, data_config
from vitscope.models import create_model, origin
from vitscope.models.origin import set_input, set_origin
from vitscope.models.trust import OUR_FACTORIES, allow_model
from vitscope.surgery.mc_dropout import MCDropout, draw_number, dropouts
from vitscope.surgery.tools.choose import Example, Passes
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.predictions import Averaging, averages_over, place_of_answers, with_average
from vitscope.surgery.tools.record import CannotOperate, Done, operation, record, replay

ENSEMBLE = "vitscope.surgery.ensemble:build_ensemble"  # as run folders name it
OUR_FACTORIES.add(ENSEMBLE)


class PassEnsemble(Averaging):
    """Runs a model several times in evaluation mode, each time as another sampled network, by its MC dropouts `places`.

    A call says the same every time. `scores` is where the class scores are in what the model returns.
    """

    over = "passes"
    draws: Tensor

    def __init__(
        self, passes: int, seed: int, places: Sequence[MCDropout], scores: Place | None = None
    ) -> None:
        super().__init__()
        self.passes, self.seed, self.scores = passes, seed, scores
        self.places = list(places)  # in a list they are not this module's children: the model holds them
        draws = [draw_number(seed, sample) for sample in range(passes)]
        self.register_buffer("draws", torch.tensor(draws), persistent=False)

    def forward(self, run: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the mean probability; in training what the model says."""
        if self.training:
            return run(*args, **kwargs)
        said: list[Tensor] = []
        try:
            for draw in self.draws.unbind():
                for place in self.places:
                    place.draw = draw
                output = run(*args, **kwargs)
                said.append(scores_at(output, self.scores))
        finally:
            for place in self.places:
                place.draw = None
        return with_average(output, said[-1], said)

    def extra_repr(self) -> str:
        """How many passes, and their seed."""
        return f"passes={self.passes}, seed={self.seed}"


@operation
def ensemble(model: nn.Module, passes: Passes = 10, *, seed: Seed = 0, example: Example = None) -> Done:
    """Let a model with MC dropout average over several passes whenever it is called in evaluation mode.

    Args:
        model: Is changed in place; with `vs.surgery.mc_dropout` done before.
        passes: How many; each costs a forward pass.
        seed: Decides the sampled networks; they are the same in every call.
        example: As for `vs.anatomy`.
    """
    _refuse_to_average_again(model)
    places = dropouts(model)
    if not places:
        raise CannotOperate(
            f"all passes of this {type(model).__name__} would be the same; first: vs.surgery.mc_dropout(model)"
        )
    step = PassEnsemble(passes, seed, places, place_of_answers(model, example))
    path = graft(model, "", step, "ensemble", "around")
    return Done({"passes": passes, "seed": seed}, [path], [path])


def _refuse_to_average_again(model: nn.Module) -> None:
    name, over = type(model).__name__, averages_over(model)
    if "passes" in over:
        raise CannotOperate(
            f"this {name} averages over passes already; to change their number do ensemble once, with other passes=, "
            "on the model without it (in Python vs.surgery.undo(model))"
        )
    if "models" in over:
        raise CannotOperate(
            f"this {name} averages over models, whose dropout would draw the same masks; make an ensemble of each of "
            "them before (in Python vs.surgery.deep_ensemble([vs.surgery.ensemble(member), ...]))"
        )
    if "frames" in over:
        raise CannotOperate(
            f"this {name} averages over frames, and would take every pass for a frame; do ensemble first, temporal "
            "after it"
        )


class DeepEnsemble(Averaging):
    """Several models as one, that take the same images and know the same classes; each is trained on its own."""

    over = "models"

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.num_classes = class_count(members[0])
        declare(self, output=interface_of(members[0]).output)
        said = getattr(members[0], "pretrained_cfg", None) or {}
        set_input(self, **asdict(data_config(members[0])), label_names=said.get("label_names"))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the members' mean probability."""
        outputs = [member(*args, **kwargs) for member in self.members]
        told, pairs = interface_of(self).output, zip(self.members, outputs, strict=True)
        said = [class_scores(member, output, said=told) for member, output in pairs]
        return with_average(outputs[0], said[0], said)


@checked
def deep_ensemble(members: Sequence[nn.Module | str | Path], trust_code: bool = False) -> DeepEnsemble:
    """One model out of several, whose prediction is the mean of theirs.

    Args:
        members: Models, or run folders and names as `vs.create_model` takes them.
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).

    Returns:
        A model that is saved and loaded like any other, its members' weights with it, if `vs.create_model` made them.
    """
    models = [
        member if isinstance(member, nn.Module) else create_model(member, trust_code=trust_code)
        for member in members
    ]
    _check_members(models)
    whole = DeepEnsemble(models)
    if all(origin(model) for model in models):
        set_origin(whole, ENSEMBLE, {"members": [_describe(model) for model in models]})
    return whole


def build_ensemble(members: Sequence[Mapping[str, Any]], trust_code: bool = False) -> DeepEnsemble:
    """An ensemble of freshly made models, out of what `deep_ensemble` wrote down of its members.

    What is written down comes from a file, so functions that it names are called only with `trust_code`.
    """
    models = []
    for described in members:
        name, arguments = described["name"], described["arguments"]
        allow_model(name, arguments, "the description of an ensemble", trust_code)
        model = create_model(name, trust_code=trust_code, **arguments)
        set_input(model, input_size=tuple(described["input_size"]))
        declare(model, **described.get("interface", {}))
        models.append(replay(model, described["surgery"]))
    return DeepEnsemble(models)


def _describe(model: nn.Module) -> dict[str, Any]:
    made = origin(model)
    assert made is not None
    return {
        "name": made.name,
        "arguments": dict(made.arguments),
        "input_size": list(example_batch(model).shape[1:]),
        "surgery": record(model),
        "interface": interface_of(model).to_dict(),
    }


def _check_members(models: Sequence[nn.Module]) -> None:
    """All take what the first takes, prepared the same way, and answer in the same shape."""
    if not models:
        raise CannotOperate("an ensemble of no members; give models or run folders")
    if len({id(model) for model in models}) < len(models):
        raise CannotOperate("a model is twice in the ensemble; give a copy of it, or another one")
    wanted = None
    for number, model in enumerate(models):
        images = example_batch(model)
        with preserved(model), torch.no_grad():
            classes = tuple(class_scores(model, model(images)).shape[1:])
        prepared = data_config(model)
        said = getattr(model, "pretrained_cfg", None) or {}
        seen = {
            "input size": tuple(images.shape[1:]),
            "output shape": classes,
            "mean": prepared.mean,
            "standard deviation": prepared.std,
            "classes": said.get("label_names"),
        }
        wanted = wanted or seen
        for what, value in seen.items():
            if value != wanted[what]:
                raise CannotOperate(
                    f"member {number} differs from member 0 in its {what}: {value} against {wanted[what]}; "
                    "an ensemble's members see the same images and know the same classes"
                )
