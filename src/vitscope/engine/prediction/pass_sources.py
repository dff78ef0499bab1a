"""What gives several predictions of the same images: random passes of one network, or the members of an ensemble."""

import warnings
from collections.abc import Generator
from copy import deepcopy
from dataclasses import replace
from typing import Literal, Protocol, Self

from torch import Tensor, nn

from vitscope.core.outputs import Place
from vitscope.engine.features.random_network import RandomNetwork
from vitscope.engine.not_finite import finite_scores
from vitscope.surgery import smooth
from vitscope.surgery.mc_dropout import draw_number
from vitscope.surgery.tools.record import NoEffectWarning, record

Where = Literal["subsampling", "stage_ends"]


class PassSource(Protocol):
    """Predictions of the same images, one after the other."""

    source: str  # what makes them differ
    p: float | None  # of MC dropout that was put in for this
    most: int | None  # how many there are; None: as many as wanted
    deterministic: bool  # beside them there is a model that draws nothing

    def single(self, images: Tensor) -> Tensor:
        """The logits of the deterministic model; where there is none, the first of the predictions."""

    def passes(self, images: Tensor, first_image: int, count: int) -> Generator[Tensor]:
        """The logits of `count` passes; `first_image` is the place of the first image in the data."""

    def smoothed(self, shape: tuple[int, ...]) -> Self | None:
        """The same with spatial smoothing in a copy, for images of this shape; None where it has no place."""


class RandomPasses:
    """Passes of a random network; without one the model is all there is."""

    deterministic = True

    def __init__(self, model: nn.Module, network: RandomNetwork | None, seed: int) -> None:
        # a copy with dropout put in says the same as the model, a little slower
        self._model = model if network is None or network.p is not None else network.model
        self._network, self._seed = network, seed
        self.source = "" if network is None else network.source
        self.p = None if network is None else network.p
        self.most = 0 if network is None else None

    def single(self, images: Tensor) -> Tensor:
        """What the model says with dropout off."""
        return finite_scores(self._model, images)

    def passes(self, images: Tensor, first_image: int, count: int) -> Generator[Tensor]:
        """One sampled network after the other."""
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
        self._members, self._said = (
            members,
            said,
        )  # which output holds the class scores, as `class_scores` takes it
        self.most: int | None = len(members)

    def single(self, images: Tensor) -> Tensor:
        """What the first member says."""
        return finite_scores(self._members[0], images, self._said)

    def passes(self, images: Tensor, first_image: int, count: int) -> Generator[Tensor]:
        """One member after the other."""
        for member in self._members[:count]:
            yield finite_scores(member, images, self._said)

    def smoothed(self, shape: tuple[int, ...]) -> Self | None:
        """Every member with smoothing."""
        changed = [smoothed_copy(member, shape) for member in self._members]
        found = [member for member in changed if member is not None]
        return type(self)(found, self._said) if len(found) == len(changed) else None


def smoothed_copy(model: nn.Module, shape: tuple[int, ...]) -> nn.Module | None:
    """A copy with spatial smoothing before every subsampling, or where there is none at the ends of stages.

    None where neither has a place.
    """
    copy = deepcopy(model)
    places: tuple[Where, ...] = ("subsampling", "stage_ends")
    for where in places:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoEffectWarning)  # a result says by itself what was not done
            smooth(copy, where, example=shape)
        if len(record(copy)) > len(record(model)):
            return copy
    return None
