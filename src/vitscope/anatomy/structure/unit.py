"""The vocabulary of anatomy: a unit, its attention, and the ordered units of a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, overload

from torch import Tensor

from vitscope.anatomy.structure.factors import Axes
from vitscope.anatomy.taps.map_view import MapView
from vitscope.anatomy.watch.one_forward import Site
from vitscope.anatomy.watch.places import Places
from vitscope.core.errors import VitscopeError

Kind = Literal["stem", "conv", "msa", "mlp", "subsample", "mixer", "other", "head"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Attention:
    """How an MSA looks at the map, and where in the pass its probabilities can be had."""

    # global, local (a neighbourhood of each point), window, grid (dilated window), pooled (fewer keys), class (prefix
    # queries only), context (one query that is no point, for all points of a window), channel, other
    pattern: str
    heads: int
    queries: int  # per window
    keys: int
    window: tuple[int, int] | None = None  # rows and columns of one window, or of a neighbourhood
    shift: tuple[int, int] = (0, 0)  # of the windows against the map's corner
    windows: int = 1  # per image
    sites: tuple["AttentionSite", ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class AttentionSite:
    """One place where probabilities multiply values."""

    product: Site  # the fused attention, or the product of weights and values
    fused: bool
    weights_operand: int = 0  # which factor of the product is the weights
    weights_transposed: bool = False  # weights stand as (keys, queries)
    softmax: Site | None = None  # where the probabilities are formed, if not fused and by a softmax
    head_axis: int | None = None  # of the weights; None: heads share an axis with the images
    heads: int = 1
    places: Places | None = None  # where its queries and keys lie on the map, where one can tell
    # where probabilities are formed by hand; if neither here nor by a softmax, the product of exponentials and values
    # is divided by their sum
    formed: Site | None = None
    formed_transposed: bool = False  # probabilities are formed as (keys, queries)
    axes: Axes | None = None  # of the product, where it is an einsum or a sum of products
    summed: Site | None = None  # the sum over positions, where the product is element by element

    def oriented(self, tensor: Tensor, part: str) -> Tensor:
        """The `left` factor (weights), the `right` one (values) or the `result` as a matrix product has them."""
        if self.axes is not None:
            return self.axes.in_order(tensor, part)
        return tensor.transpose(-2, -1) if self.weights_transposed else tensor

    def as_given(self, result: Tensor) -> Tensor:
        """Weights x values in the order in which the model has it."""
        if self.axes is not None:
            return self.axes.as_given(result)
        return result.transpose(-2, -1) if self.weights_transposed else result

    def by_head(self, tensor: Tensor) -> Tensor:
        """(images x windows, heads, rows, columns)."""
        if self.head_axis is None:
            return tensor.unflatten(0, (-1, self.heads)) if tensor.dim() == 3 else tensor
        tensor = tensor.movedim(self.head_axis, -3)
        return tensor.flatten(0, -4) if tensor.dim() > 4 else tensor


@dataclass(frozen=True)
class Unit:
    """One step of a model along its residual stream."""

    name: str
    kind: str
    stage: int
    depth: float  # position in the model, 0 (first unit) to 1 (last)
    map_shape: tuple[int, int, int] | None  # C, H, W of the stream after it; None where there is no map
    prefix_tokens: int
    heads: int | None
    module: str  # path of the nn.Module that owns the branch
    residual: bool = False  # an addition to a stream, as against a step that everything passes through
    removable: bool = False  # the stream goes on without it, as it was or as a shortcut projects it
    downsamples: bool = False  # leaves a smaller grid than it found
    attention: Attention | None = None
    # the operation whose result is the stream after it, and which operand of that addition is the stream
    site: Site = field(default=Site("", 0, "", 0), repr=False, compare=False)
    stream_operand: int = field(default=0, repr=False, compare=False)
    example_shape: tuple[int, ...] = field(default=(), repr=False, compare=False)
    view: MapView | None = field(default=None, repr=False, compare=False)
    # a module that is called in the branch, to tell it from another one
    called: str = field(default="", repr=False, compare=False)
    activation: str = (
        ""  # what follows the addition directly, so that the next unit reads its result: relu ...
    )
    read_site: Site | None = field(default=None, repr=False, compare=False)  # the operation that gives it
    part: str = ""  # of a dense model: backbone, neck, head

    @property
    def obstacle(self) -> str | None:
        """Why the stream cannot go on without this unit; None where it can."""
        if self.removable:
            return None
        return "its shortcut does as much as its branch" if self.residual else "everything passes through it"

    def describe(self) -> dict[str, Any]:
        """Plain values for tables and JSON."""
        names = "name kind stage depth map_shape prefix_tokens heads module residual removable downsamples activation"
        of_attention = "pattern heads window shift windows queries keys"
        facts = _plain(self, names) | {"depth": round(self.depth, 4)}
        part = {"part": self.part} if self.part else {}
        return {**facts, **part, "attention": self.attention and _plain(self.attention, of_attention)}


def _plain(facts: Unit | Attention, names: str) -> dict[str, Any]:
    values = {name: getattr(facts, name) for name in names.split()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


class Anatomy(Sequence[Unit]):
    """The units of a model in execution order; index by position or by name."""

    def __init__(
        self,
        units: Sequence[Unit],
        model_name: str,
        input_shape: tuple[int, ...],
        batch: int,
        output: str | int | None = None,
        undecided: str = "",
    ) -> None:
        self.units = tuple(units)
        self.model_name = model_name
        self.input_shape = input_shape  # C, H, W
        self.batch = batch  # of the pass that was watched
        self.output = output  # the one of several that the units lead to, if one is known
        self.undecided = undecided  # why none is known, so that they lead to all of them
        self._by_name = {unit.name: unit for unit in units}

    @property
    def mapped(self) -> tuple[Unit, ...]:
        """The units after which the stream is a map; the head is not one of them."""
        return tuple(u for u in self.units if u.map_shape is not None and u.kind != "head")

    def of_kind(self, *kinds: str) -> tuple[Unit, ...]:
        """The units of one or more kinds."""
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise VitscopeError(f"no kind '{unknown[0]}'; there are: {', '.join(KINDS)}")
        return tuple(u for u in self.units if u.kind in kinds)

    @overload
    def __getitem__(self, key: int | str) -> Unit: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Unit, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Unit | tuple[Unit, ...]:
        if isinstance(key, str):
            if key not in self._by_name:
                names = ", ".join(list(self._by_name)[:8])
                raise VitscopeError(
                    f"{self.model_name} has no unit '{key}'; it has {names} ... (vitscope anatomy lists them)"
                )
            return self._by_name[key]
        return self.units[key]

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.units)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        output = "" if self.output is None else f", output {self.output!r}"
        lines = [f"Anatomy of {self.model_name} at {shape}{output}: {len(self)} units"]
        width = max((len(u.name) for u in self.units), default=4)
        for u in self.units:
            shape = "x".join(map(str, u.map_shape)) if u.map_shape else "-"
            part = f"{u.part:<8}  " if u.part else ""
            lines.append(f"  {part}{u.stage}  {u.kind:<9}  {u.name:<{width}}  {shape}")
        if self.undecided:
            lines.append(f"  note: {self.undecided}")
        return "\n".join(lines)
