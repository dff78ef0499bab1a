"""Replace conv blocks by the MSA blocks of AlterNet ("How Do Vision Transformers Work?", section 4).

    Conv block: x + conv(... conv(x))        becomes        MSA block: x + attention(norm(conv1x1(gelu(norm(x)))))

Which blocks, in a stage of n: Conv x (n - 2m), then (Conv, MSA) x m (see `replaceable`); how many, m of each stage: by
one of three rules (see `msa_counts`).

The attention is in windows and sees as many channels as the spatial convolution that it replaces (a quarter of the
map's in a ResNet-50, all of them in a ResNet-18, a RegNet or a ConvNeXt). Its weights are drawn as `MSABlock` draws
them; all others stay. In a post-activation network the block ends in the activation that the replaced one ended in.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy.structure.dissect import Dissection, dissect
from vitscope.core.arguments import Count, CountFromZero, Side
from vitscope.core.errors import UnsupportedModel
from vitscope.models.zoo.alternet import MSABlock
from vitscope.models.zoo.registration import is_small
from vitscope.surgery.tools.choose import Example, Heads
from vitscope.surgery.tools.record import CannotOperate, Done, operation
from vitscope.surgery.tools.replaceable import ConvStage, Replaceable, check_rules, conv_stages, msa_counts

FIRST_HEADS = 3  # of the first stage; each later one has twice as many
SMALL_WINDOW, LARGE_WINDOW = 4, 7  # for images of up to 64 pixels, and above
_PROBE = (256, 8, 4, 4)  # images, channels, height, width


class FinishedMSABlock(MSABlock):
    """An MSA block that ends in what the replaced block did after its addition, a ReLU for one."""

    def __init__(self, *sizes: Any, after: Sequence[nn.Module], **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.after = nn.Sequential(*after)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output with what followed the replaced block's addition applied to it."""
        return self.after(super().forward(x))


@operation
def alternate(
    model: nn.Module,
    msa: Sequence[CountFromZero] | None = None,
    *,
    budget: Count | None = None,
    last: Count | None = None,
    heads: Sequence[Heads] | None = None,
    window: Side | None = None,
    extra_block: bool = False,
    example: Example = None,
) -> Done:
    """Replace conv blocks by MSA blocks, in place.

    Give at most one of `msa`, `budget` and `last`; without any, `budget` is 6 for a model of 1000 classes or more and
    else 4.

    Args:
        model: Any model with residual conv blocks on (N, C, H, W) maps.
        msa: MSA blocks per stage; a stage is a run of residual convolutions at one resolution, the stem is none.
        budget: MSA blocks at most, placed at stage ends from the last stage backwards, round after round.
        last: MSA blocks, placed alternately from the end of the network.
        heads: Heads per stage, 64 channels each; default: 3, 6, 12, 24 and so on.
        window: Side of the attention's windows; default: 4 for images of 64 pixels or less, else 7.
        extra_block: First add a conv block to the end of the last stage, as the paper does to make it even.
        example: As for `vs.anatomy`.

    Returns:
        The model.

    Raises:
        CannotOperate: Too few blocks can be replaced; the message says how many can.
    """
    check_rules(msa, budget, last)
    added = [append_block(model, _stages(dissect(model, example))[-1])] if extra_block else []
    body = dissect(model, example)
    stages = _stages(body)
    counts = msa_counts(body, stages, msa, budget, last)
    sizes = _heads(stages, heads)
    usual = SMALL_WINDOW if is_small(max(body.parts.input_shape[1:])) else LARGE_WINDOW
    side = usual if window is None else window
    new = {
        block.path: _msa_block(model, block, size, side)
        for stage, count, size in zip(stages, counts, sizes, strict=True)
        for block in reversed(stage.replaceable[:count])
    }
    _replace(model, new, example)
    options = {"msa": counts, "heads": sizes, "window": side, "extra_block": extra_block}
    none = "no block of it takes and gives a map of one shape, after a convolution at the same resolution"
    why_none = none if msa is None else "no block was asked for"
    return Done(options, list(dict.fromkeys([*new, *added])), why_none=why_none)


def _stages(body: Dissection) -> list[ConvStage]:
    stages = conv_stages(body)
    if not stages:
        raise CannotOperate(
            f"{body.parts.model_name} has no residual conv blocks, so there is nothing that an MSA block could "
            "take the place of (vitscope anatomy shows what it has)"
        )
    return stages


def _heads(stages: list[ConvStage], heads: Sequence[int] | None) -> list[int]:
    usual = [FIRST_HEADS * 2**i for i in range(len(stages))]
    if heads is None:
        return usual
    if len(heads) != len(stages):
        raise CannotOperate(
            f"heads={tuple(heads)}; expected a number for each of the {len(stages)} stages, e.g. heads={tuple(usual)}"
        )
    return list(heads)


def _msa_block(model: nn.Module, block: Replaceable, heads: int, window: int) -> nn.Module:
    """The new block, where and as the old one is: device, precision, mode, stochastic depth."""
    old = model.get_submodule(block.path)
    sizes = (block.channels, heads, window)
    settings: dict[str, Any] = {"width": block.width, "drop_path": drop_probability(old)}
    if block.after:
        settings["after"] = block.after
    new: nn.Module = (FinishedMSABlock if block.after else MSABlock)(*sizes, **settings)
    reference = next(old.parameters())
    return new.to(reference.device, reference.dtype).train(old.training)


def _replace(model: nn.Module, new: dict[str, nn.Module], example: Any) -> None:
    """Put the blocks in and watch the model run."""
    for path, module in new.items():
        model.set_submodule(path, module)
    try:
        parts = dissect(model, example).parts if new else ()
        seen = [unit.module for unit in parts if unit.kind == "msa"]
        absent = [path for path in new if not any(f"{module}.".startswith(f"{path}.") for module in seen)]
        if absent:
            raise UnsupportedModel(f"no attention is seen in '{absent[0]}'")
    except UnsupportedModel as error:
        raise CannotOperate(
            f"this {type(model).__name__} does not run with MSA blocks in the place of its own: {error}"
        ) from error


def append_block(model: nn.Module, stage: ConvStage) -> str:
    """Append a fresh copy of the stage's last block to the container that holds it, as AlterNet does to ResNet's last
    stage to have an even number, and give its path.

    Every module of the copy that has `reset_parameters`, torch's own protocol, is reset; what has none (a layer scale)
    keeps the values it had.
    """
    if not stage.replaceable:
        raise CannotOperate(
            f"stage {stage.number} has no block that keeps the shape of its map, so none can be added after it; "
            "leave extra_block out"
        )
    path = stage.replaceable[0].path
    parent_path, _, name = path.rpartition(".")
    parent = model.get_submodule(parent_path)
    if not isinstance(parent, nn.Sequential | nn.ModuleList) or list(parent._modules)[-1] != name:
        raise CannotOperate(
            f"block '{path}' is not the last one of an nn.Sequential or nn.ModuleList, so none can be added after "
            "it; leave extra_block out, or build the model with one block more"
        )
    fresh = copy.deepcopy(model.get_submodule(path))
    for module in fresh.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
    parent.append(fresh)
    added = list(parent._modules)[-1]
    return f"{parent_path}.{added}" if parent_path else added


def drop_probability(block: nn.Module) -> float:
    """The largest stochastic depth in a block, 0 where it has none.

    Found by what its modules do, for names differ from library to library: one that drops whole images with probability
    p and scales the others by 1 / (1 - p) gives, for a batch of ones in training mode, images of zeros and images of
    1 / (1 - p), and nothing else.
    """
    leaves = [m for m in block.modules() if not [*m.children(), *m.parameters(), *m.buffers()]]
    return max((_probability(leaf) for leaf in leaves), default=0.0)


def _probability(leaf: nn.Module) -> float:
    probe = torch.ones(_PROBE, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        try:
            seen = copy.deepcopy(leaf).train()(probe)
        except Exception:  # it wants another input, so it is no step of a residual branch
            return 0.0
    if not isinstance(seen, torch.Tensor) or seen.shape != probe.shape:
        return 0.0
    images = seen.flatten(1)
    scale = float(images.max())
    whole = bool((images == images[:, :1]).all()) and bool(((images == 0) | (images == scale)).all())
    return round(1 - 1 / scale, 6) if whole and scale > 1 else 0.0
