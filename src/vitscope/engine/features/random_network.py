"""A network that is another one in every pass: a model's own dropout, or MC dropout put into a copy of it."""

import warnings
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, Tap, Unit
from vitscope.core.errors import VitscopeError, warn
from vitscope.engine.not_finite import finite_scores
from vitscope.surgery import mc_dropout
from vitscope.surgery.ensemble import PassEnsemble
from vitscope.surgery.mc_dropout import draw_number, dropouts, sampling
from vitscope.surgery.tools.graft import grafts, ungraft
from vitscope.surgery.tools.record import CannotOperate, NoEffectWarning

TRIES = 8  # passes in which a model's own dropout must show
TELLING = 1e-3  # of the largest number: more than rounding ever does


@dataclass(frozen=True)
class RandomNetwork:
    """A model whose passes differ inside `passes`, and agree outside."""

    model: nn.Module
    source: str  # what makes it random
    own: bool  # it is the model's own dropout, which draws for every image anew
    p: float | None = None  # of MC dropout that was put into a copy

    def passes(self, seed: int, first_image: int) -> AbstractContextManager[None]:
        """Inside it pass k is the k-th network of this seed.

        MC dropout gives all images the same networks. A model's own dropout draws a mask for every image of a batch; so
        that two batches get different ones, whoever computes them, it is seeded by their first image.
        """
        return sampling(
            self.model, draw_number(seed, first_image) if self.own else seed, own_dropout=self.own
        )


def random_network(
    model: nn.Module, parts: Anatomy | None, images: Tensor, p: float, seed: int
) -> RandomNetwork | None:
    """What is random in the model already, else MC dropout with probability `p` in a copy; None where it has no place.

    Args:
        model: In evaluation mode.
        parts: Its anatomy, if features are looked at: draws count that reach them, and among which its units are
            found. None: draws count that reach the prediction.
        images: A few, to see whether its passes differ.
        p: Of the dropout that is put in.
        seed: Of those passes.
    """
    model = _one_pass_at_a_time(model)
    if dropouts(model):
        return RandomNetwork(model, "the model's MC dropout", own=False)
    own = RandomNetwork(model, "the model's own dropout", own=True)
    if _passes_differ(own, parts, images, seed):
        return own
    copy = deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoEffectWarning)  # said below in the words of this exam
        mc_dropout(copy, p=p, example=tuple(images.shape[1:]))
    if not dropouts(copy):
        warn("no branch of the model can take dropout: no spread over passes")
        return None
    return RandomNetwork(copy, f"MC dropout, p = {p:g}", own=False, p=p)


def _one_pass_at_a_time(model: nn.Module) -> nn.Module:
    """The model, or where it averages over passes by itself a copy that does not."""
    averaging = [path for path, graft in grafts(model) if isinstance(graft, PassEnsemble)]
    if not averaging:
        return model
    copy = deepcopy(model)
    for path in averaging:
        ungraft(copy, path)
    return copy


@torch.inference_mode()
def _passes_differ(network: RandomNetwork, parts: Anatomy | None, images: Tensor, seed: int) -> bool:
    """Whether some pass changes what is looked at: the map after a unit, or without `parts` the prediction."""
    model = network.model
    if parts is None:
        plain = finite_scores(model, images)
        try:
            with network.passes(seed, 0):
                return any(_differ(finite_scores(model, images), plain) for _ in range(TRIES))
        except CannotOperate:  # nothing in it could be random
            return False
    features: dict[str, Tensor] = {}
    changed: set[str] = set()

    def keep(unit: Unit, feature: Tensor) -> None:
        if unit.kind != "head":  # draws in a head reach no feature
            features[unit.name] = feature.clone()

    def compare(unit: Unit, feature: Tensor) -> None:
        if unit.name in features and _differ(feature, features[unit.name]):
            changed.add(unit.name)

    with Tap(model, parts, parts.mapped, on_feature=keep):
        model(images)
    try:
        with network.passes(seed, 0), Tap(model, parts, parts.mapped, on_feature=compare):
            for _ in range(TRIES):
                model(images)
    except VitscopeError:  # nothing in it could be random, or its units are lost among what dropout computes
        return False
    return bool(changed)


def _differ(drawn: Tensor, plain: Tensor) -> bool:
    return bool((drawn - plain).abs().max() > TELLING * plain.abs().max())
