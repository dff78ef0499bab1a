"""What gives several predictions of the same images: passes of a random network, or the members of an ensemble.

A random network is another one in every pass: by a model's own dropout, or by MC dropout put into a copy of it.
"""

import warnings
from collections.abc import Generator
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, TypeVar, get_args

import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, Tap, Unit
from vitscope.core.errors import VitscopeError, warn
from vitscope.core.outputs import Place
from vitscope.engine.not_finite import finite_scores
from vitscope.surgery import mc_dropout, smooth
from vitscope.surgery.ensemble import PassEnsemble
from vitscope.surgery.mc_dropout import draw_number, dropouts, sampled_networks
from vitscope.surgery.tools.graft import grafts, ungraft
from vitscope.surgery.tools.own_dropout import own_dropouts
from vitscope.surgery.tools.record import CannotOperate, NoEffectWarning, record

Where = Literal["subsampling", "stage_ends"]
Kind = TypeVar("Kind", bound=nn.Module)
TRIES = 8  # passes in which a model's own dropout must show
TELLING = 1e-3  # of the largest number: more than rounding ever does


@dataclass(frozen=True)
class RandomNetwork:
    """A model whose passes differ inside `passes`, and agree outside."""

    model: nn.Module
    source: str  # what makes it random
    images: Tensor  # some that the model takes
    own: bool  # it is the model's own dropout, which draws for every image anew
    p: float | None = None  # of MC dropout that was put into a copy

    @cached_property
    def _drawing(self) -> list[nn.Module]:
        return own_dropouts(self.model, self.images) if self.own else []

    def passes(self, seed: int, first_image: int) -> AbstractContextManager[None]:
        """Inside it pass k is the k-th network of this seed.

        MC dropout gives all images the same networks. A model's own dropout draws a mask for every image of a batch; so
        that two batches get different ones, whoever computes them, it is seeded by their first image.
        """
        seed = draw_number(seed, first_image) if self.own else seed
        return sampled_networks(self.model, seed, self._drawing)


def random_network(
    model: nn.Module, parts: Anatomy | None, images: Tensor, p: float, seed: int
) -> RandomNetwork | None:
    """What is random in the model already, else MC dropout with probability `p` in a copy; None where it has no place.

    Whether its passes differ is seen on a few images: in its features, if there is an anatomy, else in the prediction.
    """
    model, _ = without_grafts(model, PassEnsemble)  # which averages over passes by itself
    if dropouts(model):
        return RandomNetwork(model, "the model's MC dropout", images, own=False)
    own = RandomNetwork(model, "the model's own dropout", images, own=True)
    if _passes_differ(own, parts, images, seed):
        return own
    copy = deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoEffectWarning)  # said below in the words of this exam
        mc_dropout(copy, p=p, example=tuple(images.shape[1:]))
    if not dropouts(copy):
        warn("no branch of the model can take dropout: no spread over passes")
        return None
    return RandomNetwork(copy, f"MC dropout, p = {p:g}", images, own=False, p=p)


def without_grafts(model: nn.Module, kind: type[Kind]) -> tuple[nn.Module, Kind | None]:
    """The model, or where it has grafts of a kind a copy without them; and the last of them."""
    found = [(path, graft) for path, graft in grafts(model) if isinstance(graft, kind)]
    if not found:
        return model, None
    copy = deepcopy(model)
    for path, _ in found:
        ungraft(copy, path)
    return copy, found[-1][1]


@torch.inference_mode()
def _passes_differ(network: RandomNetwork, parts: Anatomy | None, images: Tensor, seed: int) -> bool:
    """Whether some pass changes what is looked at: the map after a unit, or without `parts` the prediction."""

    def looked_at() -> list[Tensor]:
        if parts is None:
            return [finite_scores(network.model, images)]
        features: list[Tensor] = []

        def keep(unit: Unit, feature: Tensor) -> None:
            if unit.kind != "head":  # draws in a head reach no feature
                features.append(feature.clone())

        with Tap(network.model, parts, parts.mapped, on_feature=keep):
            network.model(images)
        return features

    plain = looked_at()
    # nothing in it could be random; or its units are lost among what dropout computes
    expected = CannotOperate if parts is None else VitscopeError
    try:
        with network.passes(seed, 0):
            return any(any(map(_differ, looked_at(), plain)) for _ in range(TRIES))
    except expected:
        return False


def _differ(drawn: Tensor, plain: Tensor) -> bool:
    return bool((drawn - plain).abs().max() > TELLING * plain.abs().max())


class RandomPasses:
    """Passes of a random network, beside which there is a model that draws nothing; without one it is all there is."""

    deterministic = True

    def __init__(self, model: nn.Module, network: RandomNetwork | None, seed: int) -> None:
        # a copy with dropout put in says the same as the model, a little slower
        self._model = model if network is None or network.p is not None else network.model
        self._network, self._seed = network, seed
        self.source = "" if network is None else network.source  # what makes them differ
        self.p = None if network is None else network.p  # of MC dropout that was put in for this
        self.most = 0 if network is None else None  # how many there are; None: as many as wanted

    def single(self, images: Tensor) -> Tensor:
        """What the model says with dropout off."""
        return finite_scores(self._model, images)

    def passes(self, images: Tensor, first_image: int, count: int) -> Generator[Tensor]:
        """`count` sampled networks; `first_image` is the place of the first image in the data."""
        if self._network is None:
            return
        with self._network.passes(self._seed, first_image):
            for _ in range(count):
                yield finite_scores(self._network.model, images)

    def draw(self, images: Tensor, place: int) -> Tensor:
        """One pass, of a network that depends on a place in the data."""
        assert self._network is not None
        with self._network.passes(draw_number(self._seed, place), place):
            return finite_scores(self._network.model, images)

    def smoothed(self, shape: tuple[int, ...]) -> Self | None:
        """The same networks, masks included, with smoothing."""
        subject = self._model if self._network is None else self._network.model
        changed = smoothed_copy(subject, shape)
        if changed is None:
            return None
        network = None if self._network is None else replace(self._network, model=changed)
        return type(self)(changed, network, self._seed)


class Members:
    """The members of an ensemble, in their order."""

    source = "members of an ensemble"
    p: float | None = None
    deterministic = False

    def __init__(self, members: list[nn.Module], said: Place | None = None) -> None:
        self._members, self._said = members, said  # `said`: which output, as `class_scores` takes it
        self.most: int | None = len(members)

    def single(self, images: Tensor) -> Tensor:
        """(N, classes) the scores of the first member of the ensemble."""
        return finite_scores(self._members[0], images, self._said)

    def passes(self, images: Tensor, first_image: int, count: int) -> Generator[Tensor]:
        """(N, classes) the scores of one member after the other."""
        for member in self._members[:count]:
            yield finite_scores(member, images, self._said)

    def smoothed(self, shape: tuple[int, ...]) -> Self | None:
        """Every member with smoothing."""
        changed = [smoothed_copy(member, shape) for member in self._members]
        found = [member for member in changed if member is not None]
        return type(self)(found, self._said) if len(found) == len(changed) else None


PassSource = RandomPasses | Members  # of predictions of the same images, one after the other


def smoothed_copy(model: nn.Module, shape: tuple[int, ...]) -> nn.Module | None:
    """A copy with spatial smoothing before every subsampling, or where there is none at the ends of stages.

    None where neither has a place.
    """
    copy = deepcopy(model)
    for where in get_args(Where):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoEffectWarning)  # a result says by itself what was not done
            smooth(copy, where, example=shape)
        if len(record(copy)) > len(record(model)):
            return copy
    return None
