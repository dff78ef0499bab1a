"""MC dropout: dropout that stays on at test time when asked, so that a model is a distribution over models.

    y = x * m / (1 - p)      m ~ Bernoulli(1 - p)

stands before the last linear map of every residual branch, where the published ResNets have it.

In training m is drawn for every element of the batch, as in any dropout. In evaluation it is left out, unless
inside `sampling`: then a pass is one sampled network, so m is the same for all images of the pass, and what the
model says of an image does not depend on the images beside it. Such a mask is a hash of (seed, pass, place,
element): the same on every device and in every process, and no random number generator is touched.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.structure.unit import Kind
from vitscope.anatomy.taps.ports import Port, branch_port, why_shared
from vitscope.anatomy.watch.example import example_batch
from vitscope.core.arguments import Seed, checked
from vitscope.core.errors import UnsupportedModel, warn
from vitscope.surgery.tools.choose import DropRate, Example, Layers, asked_units, by_name, choose_units
from vitscope.surgery.tools.graft import graft_at
from vitscope.surgery.tools.map_source import MapNotes, Windows
from vitscope.surgery.tools.own_dropout import own_dropouts, without_weights
from vitscope.surgery.tools.predictions import averages_over
from vitscope.surgery.tools.record import CannotOperate, Done, operation, record

BITS = 32
Bits = TypeVar("Bits", int, Tensor)


def scramble(number: Bits) -> Bits:
    """A 32-bit integer hash (xor-shift-multiply, twice), one to one; of numbers or of integer tensors."""
    low = 2**BITS - 1
    number = (number ^ (number >> 16)) * 0x21F0AAAD & low
    number = (number ^ (number >> 15)) * 0x735A2D97 & low
    return number ^ (number >> 15)


def draw_number(seed: int, sample: int) -> int:
    """What tells the masks of one sampled network from those of another."""
    return scramble(scramble(seed % 2**BITS) ^ sample % 2**BITS)


class MCDropout(nn.Module):
    """Dropout in training; in evaluation the mask that `draw` says, or none.

    `place` is the number of this dropout in its model, so that each has masks of its own; `windows` tells how many
    parts of an image share the batch axis where images of another size come.
    """

    def __init__(
        self,
        p: float,
        place: int,
        batch_axis: int = 0,
        parts_per_image: int = 1,
        windows: Windows | None = None,
    ) -> None:
        super().__init__()
        self.p, self.place = p, place
        self.batch_axis, self.parts_per_image, self.windows = batch_axis, parts_per_image, windows
        self.draw: Tensor | None = None  # a `draw_number`; set from outside, never by forward

    def forward(self, x: Tensor) -> Tensor:
        """Drop, or pass on."""
        if self.training:
            return F.dropout(x, self.p)
        if self.draw is None:
            return x
        axis = self.batch_axis
        parts = self.parts_per_image if self.windows is None else self.windows.count(x, axis)
        kept = self.kept(self.draw, (parts, *x.shape[:axis], *x.shape[axis + 1 :])).movedim(0, axis)
        by_image = x.unflatten(axis, (-1, parts))
        return (by_image * (kept.to(x.dtype) / (1 - self.p)).unsqueeze(axis)).flatten(axis, axis + 1)

    def kept(self, draw: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Which elements of an image are kept, as booleans."""
        elements = torch.arange(math.prod(shape), device=draw.device)
        bits = scramble(scramble(elements) ^ scramble(draw ^ scramble(self.place)))
        return (bits >= round(self.p * 2**BITS)).view(shape)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p:g}"


def dropouts(model: nn.Module) -> list[MCDropout]:
    """The MC dropouts of a model, in order."""
    return [module for module in model.modules() if isinstance(module, MCDropout)]


@checked
@contextmanager
def sampling(
    model: nn.Module, seed: Seed = 0, *, own_dropout: bool = False, example: Example = None
) -> Iterator[None]:
    """Inside it every pass of the model in evaluation mode is that of another sampled network.

    Pass k is the same for the same seed, whatever ran before. On leaving, the model is deterministic again.

    Args:
        model: With MC dropout.
        seed: Decides the networks.
        own_dropout: The model's own dropout and stochastic depth are on too: the modules that do nothing but draw in
            training mode are in it, those of attention among them. They use torch's generator, which is seeded inside
            and restored on leaving.
        example: As for `vs.anatomy`, to see which modules these are.
    """
    with sampled_networks(model, seed, _own(model, example) if own_dropout else []):
        yield


def _own(model: nn.Module, example: Any) -> list[nn.Module]:
    """The modules that `sampling` puts into training mode; fewer where no pass can be watched."""
    try:
        return own_dropouts(model, example_batch(model, example))
    except UnsupportedModel as error:
        if example is not None:
            raise
        warn(f"{error}; until it has an example=, dropout inside modules with weights stays off")
        return without_weights(model)


@contextmanager
def sampled_networks(model: nn.Module, seed: int, own: Sequence[nn.Module]) -> Iterator[None]:
    """`sampling` with the model's `own_dropouts`."""
    if "passes" in averages_over(model):
        raise CannotOperate(
            f"this {type(model).__name__} averages over passes by itself; take a model without ensemble "
            "(in Python vs.surgery.undo(model))"
        )
    places = dropouts(model)
    own = [module for module in own if not isinstance(module, MCDropout)]
    if not places and not own:
        raise CannotOperate(
            f"this {type(model).__name__} has no dropout to sample; put some in: vs.surgery.mc_dropout(model)"
        )
    samples = count()

    def next_sample(*_: Any) -> None:
        number = draw_number(seed, next(samples))
        for place in places:
            place.draw = torch.tensor(number, device=device)

    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    modes = [(module, module.training) for module in own]
    with ExitStack() as stack:
        if own:
            stack.enter_context(torch.random.fork_rng(range(torch.cuda.device_count())))
            torch.manual_seed(seed)
        handle = model.register_forward_pre_hook(next_sample)
        try:
            for module in own:
                module.training = True
            yield
        finally:
            handle.remove()
            for place in places:
                place.draw = None
            for module, training in modes:
                module.training = training


@operation
def mc_dropout(
    model: nn.Module,
    p: DropRate = 0.3,
    *,
    kinds: Kind | Sequence[Kind] = ("conv", "msa", "mlp"),
    layers: Layers = "all",
    at: Literal["mid", "end"] = "mid",
    example: Example = None,
) -> Done:
    """Put MC dropout into a model's residual branches.

    Args:
        model: Is changed in place; in evaluation it says what it said, until inside `sampling` or an `ensemble`.
        p: Probability that an element is dropped.
        kinds: Of the units that get one.
        layers: As for the other operations: "all", "upper", "lower", names, patterns, positions.
        at: "mid", before the last linear map of the branch (after that map where it has no module of its own, as in
            nn.MultiheadAttention), or "end", after it.
        example: As for `vs.anatomy`.
    """
    if "passes" in averages_over(model):
        raise CannotOperate(
            f"this {type(model).__name__} averages over passes with the dropout it had then, and would not draw it; "
            "take that back (in Python vs.surgery.undo), do mc_dropout first, ensemble after it"
        )
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    body = dissect(model, example)
    asked, named = asked_units(body.parts, kinds, layers), by_name(layers)
    ports = {unit.name: port for unit in asked if (port := _port(body, unit, at, named)) is not None}
    fitting = choose_units(body.parts, kinds, layers, lambda unit: unit.name in ports)
    names = [unit.name for unit in fitting]
    _refuse_twice(model, names, at)
    if 0 < len(ports) < len(asked):
        warn(_left_out(body, [unit for unit in asked if unit.name not in ports]))
    notes, first = MapNotes(body), len(dropouts(model))
    steps = [
        (port, MCDropout(p, first + i, port.batch_axis, parts, notes.windows(port.node, parts)))
        for i, port in enumerate(ports[name] for name in names)
        for parts in [port.parts_per_image]
    ]
    grafts = [graft_at(model, port, step, "mc_dropout") for port, step in steps] + notes.graft(model)
    shared = next((why for unit in asked if (why := why_shared(body, unit)) is not None), None)
    why_none = shared or f"no {'/'.join(kinds)} branch can take it"
    return Done({"p": p, "kinds": kinds, "layers": names, "at": at}, names, grafts, why_none)


def _refuse_twice(model: nn.Module, names: Sequence[str], at: str) -> None:
    """Two masks on one tensor would be one dropout with another probability than either says."""
    before = [entry["options"] for entry in record(model) if entry["operation"] == mc_dropout.__name__]
    there = {name for options in before if options["at"] == at for name in options["layers"]}
    twice = [name for name in names if name in there]
    if twice:
        raise CannotOperate(
            f"unit '{twice[0]}' has MC dropout there already; do mc_dropout once, with another p= (in Python after "
            "vs.surgery.undo(model)), or choose other layers"
        )


def _left_out(body: Dissection, units: list[Unit]) -> str:
    """What to say of units without a place for dropout, where others have one."""
    shared = {unit.name: why for unit in units if (why := why_shared(body, unit)) is not None}
    others = ", ".join(unit.name for unit in units if unit.name not in shared)
    reasons = [f"no module hands on what is in the branch of {others}"] if others else []
    reasons += [f"{', '.join(shared)}: {next(iter(shared.values()))}"] if shared else []
    return "; ".join(reasons) + ": no dropout there"


def _port(body: Dissection, unit: Unit, at: Literal["mid", "end"], named: bool) -> Port | None:
    """None where there is no place for it and the unit was not asked for by name."""
    try:
        return branch_port(body, unit, at)
    except UnsupportedModel:
        if at == "mid":
            return _port(body, unit, "end", named)
        if named:
            raise
        return None
