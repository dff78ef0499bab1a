"""What a model says without each of its units: the cheap way, once it is seen to agree with the plain one."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, Lesions, Tap, Unit
from vitscope.core.errors import VitscopeError
from vitscope.core.outputs import class_scores
from vitscope.core.tensors import all_finite
from vitscope.engine.not_finite import not_finite, require_finite_weights
from vitscope.engine.task_inputs import Shown, task_of_model
from vitscope.findings.lesion import COMPARED, POSITIONS
from vitscope.results import UnitRow
from vitscope.surgery.lesion import Bypass

KEEP = 1 << 28  # bytes of a pass that may be kept
FEW = 2  # images on which the two ways are compared


class OneByOne:
    """A whole pass for every unit removed."""

    def __init__(self, model: nn.Module, parts: Anatomy) -> None:
        self._model, self._parts = model, parts
        self._given: Any = None

    def intact(self, given: Any) -> Any:
        """The model's output for images, or whatever it is given of them."""
        self._given = given
        return self._model(given)

    def without(self, unit: str) -> Any:
        """The model's output for the same, without the unit of this name."""
        with Tap(self._model, self._parts, [], remove=[unit]):
            return self._model(self._given)


class LesionPasses:
    """Passes of a model with each of some units removed.

    A pass is kept and gone on with from where a unit is removed (`Lesions`), unless on the first images this gives
    anything else than whole passes do: a model may write into what it computed earlier. A unit among `bypasses` (the
    path of a convolution and what takes its place) loses that convolution alone, in a whole pass.
    """

    def __init__(
        self,
        model: nn.Module,
        parts: Anatomy,
        units: Sequence[Unit],
        bypasses: Mapping[str, tuple[str, Bypass]] = MappingProxyType({}),
        shown: Shown = lambda images, places: images,
    ) -> None:
        self._model, self._parts, self._units, self._bypasses = model, parts, units, bypasses
        self._shown, self._finds = shown, task_of_model(model) == "detection"
        self._way: OneByOne | Lesions | None = None
        self._at_once = 1

    @property
    def cheap(self) -> bool:
        """Whether what comes before a unit is computed only once."""
        return isinstance(self._way, Lesions)

    def pieces(self, images: Tensor, labels: Tensor, *places: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """A batch in pieces that are small enough; with the places of images in the data, if these matter."""
        if self._way is None:
            self._choose(images[:FEW], len(images), *(own[:FEW] for own in places))
        parts = (numbers.split(self._at_once) for numbers in (images, labels, *places))
        yield from zip(*parts, strict=True)

    def logits(self, images: Tensor) -> Tensor:
        """(1 + units, N, classes): of the whole model, which have to be finite, then without each unit."""
        return torch.stack(list(self.outputs(images)))

    def outputs(self, images: Tensor, *places: Tensor) -> Iterator[Any]:
        """What the whole model says, which has to be finite, then without each unit.

        That is class scores (N, classes, ...), or what a detector finds in each image.
        """
        assert self._way is not None
        return self._all(self._way, images, *places)

    def _without(self, way: OneByOne | Lesions, unit: str, given: Any) -> Any:
        if unit not in self._bypasses:
            return way.without(unit)
        path, bypass = self._bypasses[unit]
        module = self._model.get_submodule(path)
        with module.register_forward_hook(lambda module, given, made: bypass(module, given[0])):
            return self._model(given)

    def _choose(self, few: Tensor, batch: int, *places: Tensor) -> None:
        plain = OneByOne(self._model, self._parts)
        by_branch = [unit for unit in self._units if unit.name not in self._bypasses]
        lesions = Lesions(self._model, self._parts, by_branch)
        expected = list(self._all(plain, few, *places))
        self._way, self._at_once = plain, batch
        try:  # the model may stumble over a pass it did not make
            agrees = _alike(list(self._all(lesions, few, *places)), expected)
        except (RuntimeError, LookupError, VitscopeError):
            return
        if agrees:
            per_image = lesions.kept_bytes() / len(few)
            self._way, self._at_once = lesions, max(1, min(batch, int(KEEP / per_image)))

    def _all(self, way: OneByOne | Lesions, images: Tensor, *places: Tensor) -> Iterator[Any]:
        if self._finds:
            require_finite_weights(self._model)
        given = self._shown(images, *places) if places else images
        with torch.inference_mode():
            whole = self._read(way.intact(given), len(images))
        if not self._finds and not all_finite(whole):
            raise not_finite(self._model, images, whole)
        yield whole
        for unit in self._units:
            with torch.inference_mode():
                found = self._read(self._without(way, unit.name, given), len(images))
            yield found

    def _read(self, output: Any, n: int) -> Any:
        return output if self._finds else class_scores(self._model, output, n)


def _alike(found: Any, expected: Any) -> bool:
    """Within half the digits of the precision; NaN, which a model may well say without a unit, equals itself."""
    if isinstance(expected, Mapping):
        return found.keys() == expected.keys() and all(
            _alike(found[name], expected[name]) for name in expected
        )
    if not isinstance(expected, Tensor):
        return len(found) == len(expected) and all(map(_alike, found, expected))
    if found.shape != expected.shape or not expected.dtype.is_floating_point:
        return torch.equal(found, expected)
    scale = expected[expected.isfinite()].abs().max().item() if expected.isfinite().any() else 0.0
    tolerance = math.sqrt(torch.finfo(expected.dtype).eps) * scale
    return torch.allclose(found, expected, rtol=0.0, atol=tolerance, equal_nan=True)


def positions(units: Iterable[Unit]) -> dict[str, str]:
    """By name of each residual unit, in which third of those of its kind in its stage it stands.

    Units that cannot be removed count too: the first block of a stage is its first, whatever can be done to it.
    """
    stages: dict[tuple[int, str], list[str]] = defaultdict(list)
    for unit in units:
        if unit.residual:
            stages[unit.stage, unit.kind].append(unit.name)
    found = {}
    for names in stages.values():
        for place, name in enumerate(names):
            third = (2 * place + 1) * 3 // (2 * len(names))  # the middle of its step, in thirds of the stage
            found[name] = POSITIONS[third] if len(names) > 1 else "only"
    return found


def group_weights(units: Sequence[UnitRow], position: Sequence[str]) -> dict[tuple[str, str], np.ndarray]:
    """By (kind, position), what turns a number per unit into the mean over the group's units."""
    weights = {}
    for kind in dict.fromkeys(unit.kind for unit in units):
        of_kind = np.array([unit.kind == kind for unit in units])
        for place in ("", *POSITIONS):
            chosen = of_kind & (np.array([place in ("", p) for p in position]))
            if chosen.any():
                weights[kind, place] = chosen / chosen.sum()
    return weights


def contrasts(groups: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The pairs of groups that the papers compare, of those that are there."""
    by_name = {" ".join(group): group for group in groups}
    return [(by_name[more], by_name[less]) for more, less in COMPARED if {more, less} <= by_name.keys()]
