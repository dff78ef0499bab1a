"""What operated models cost, as ratios of CPU time inside one process.

    python benchmarks/surgery.py [alternet ...] [--rounds 5]

One section per operation, all of them if none is named; the table at the bottom of this file lists them. Variants are
run in turn, one round after the other, on one thread (threads that wait for each other count as CPU time). A ratio is
the median over the rounds of the ratios inside a round.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import timm
import torch
import torch.nn.functional as F
from ratios import measured
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from vitscope import surgery
from vitscope.anatomy.flops import count_flops
from vitscope.models.zoo.alternet import MSABlock
from vitscope.models.zoo.local_attention import LocalAttention

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section '{unknown[0]}'; there are: {', '.join(SECTIONS)}")
    torch.set_num_threads(1)
    for name in options.sections or SECTIONS:
        torch.manual_seed(0)
        SECTIONS[name](options.rounds)


def interleaved(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each variant in each round, after one round to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(1 + rounds):
        for name, run in variants.items():
            start = time.process_time()
            run()
            if turn:
                seconds[name].append(time.process_time() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def training_step(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.train().parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def alternet(rounds: int) -> None:
    """AlterNet-50 against the pre-activation ResNet-50 with as many blocks: the MSA blocks against the Conv blocks."""
    names: dict[str, dict[str, Any]] = {"alternet_50": {}, "preresnet50": {"blocks": (3, 4, 6, 4)}}
    images, labels = torch.randn(32, 3, 32, 32), torch.randint(100, (32,))
    steps, models = {}, {}
    for layout, memory_format in FORMATS.items():
        for name, more in names.items():
            model = timm.create_model(name, img_size=32, num_classes=100, **more).to(
                memory_format=memory_format
            )
            models[name] = model
            steps[f"{name}, {layout}"] = training_step(model, images.to(memory_format=memory_format), labels)
    seconds = interleaved(steps, rounds)
    print(
        "AlterNet-50 and pre-activation ResNet-50 (3, 4, 6, 4): training step, 32 pixels, batch 32, fused AdamW\n"
    )
    print(f"{'':<16}{'GFLOP/image':>14}" + "".join(f"{layout:>16}" for layout in FORMATS))
    for name, model in models.items():
        flops = count_flops(model, (3, 32, 32)) / 1e9
        medians = [statistics.median(seconds[f"{name}, {layout}"]) for layout in FORMATS]
        print(f"{name:<16}{flops:>14.2f}" + "".join(f"{1000 * median:>13.0f} ms" for median in medians))
    ours, theirs = (
        min((f"{name}, {layout}" for layout in FORMATS), key=lambda key: statistics.median(seconds[key]))
        for name in names
    )
    by_layout = [ratio(seconds[f"alternet_50, {x}"], seconds[f"preresnet50, {x}"]) for x in FORMATS]
    print(f"{'ratio':<30}" + "".join(f"{value:>16.2f}" for value in by_layout))
    best = ratio(seconds[ours], seconds[theirs])
    measured("a training step of AlterNet-50", "that of pre-activation ResNet-50", best, 1.1)
    print(f"\nbetter layout of each: {best:.2f}, goal 1.10\n")
    where_time_goes({ours: steps[ours], theirs: steps[theirs]}, seconds)
    block_by_block(models["alternet_50"], models["preresnet50"], rounds)


GROUPS = {
    "convolutions": ("convolution",),
    "matrix products": ("::mm", "addmm", "bmm", "matmul", "linear"),
    "batch norm": ("batch_norm",),
    "activations, softmax": ("gelu", "threshold", "clamp_min", "softmax"),
    "copies": ("copy_", "clone", "contiguous", "fill_", "zero"),
    "optimizer": ("adamw",),
}


def where_time_goes(steps: Mapping[str, Callable[[], None]], seconds: Mapping[str, list[float]]) -> None:
    """The profiler's shares of one step, by kind of operation, of the CPU time that was measured without it."""
    rest = "additions and the rest"
    columns = {}
    for name, step in steps.items():
        with profile(activities=[ProfilerActivity.CPU]) as record:
            step()
        spent = dict.fromkeys([*GROUPS, rest], 0.0)
        for event in record.key_averages():
            kinds = [kind for kind, words in GROUPS.items() if any(w in event.key.lower() for w in words)]
            spent[kinds[0] if kinds else rest] += event.self_cpu_time_total
        columns[name] = {kind: time / sum(spent.values()) for kind, time in spent.items()}
    print(f"{'where the time goes':<24}" + "".join(f"{name:>30}" for name in columns))
    for kind in (*GROUPS, rest):
        cells = [
            f"{1000 * shares[kind] * statistics.median(seconds[name]):.0f} ms {shares[kind]:>5.0%}"
            for name, shares in columns.items()
        ]
        print(f"{kind:<24}" + "".join(f"{cell:>30}" for cell in cells))
    print()


def block_by_block(operated: nn.Module, plain: nn.Module, rounds: int) -> None:
    """Forward and backward of each MSA block and of the Conv block in the same place, channels_last."""
    print(f"{'block':<20}{'map':>14}{'MSA':>12}{'Conv':>12}{'time':>8}{'FLOPs':>8}")
    total = {"msa": 0.0, "conv": 0.0}
    for path, block in operated.named_modules():
        if not isinstance(block, MSABlock):
            continue
        channels = block.norm1.num_features
        side = 32 * 256 // channels  # the first stage is 256 wide on 32x32
        pair = {"msa": block, "conv": plain.get_submodule(path)}
        runs = {
            name: forward_backward(module.to(memory_format=torch.channels_last), (32, channels, side, side))
            for name, module in pair.items()
        }
        seconds = interleaved(runs, rounds)
        spent = {name: 1000 * statistics.median(seconds[name]) for name in pair}
        flops = [count_flops(module, (channels, side, side)) for module in pair.values()]
        shape = f"{channels}x{side}x{side}"
        print(
            f"{path:<20}{shape:>14}{spent['msa']:>9.0f} ms{spent['conv']:>9.0f} ms"
            f"{ratio(seconds['msa'], seconds['conv']):>8.2f}{flops[0] / flops[1]:>8.2f}"
        )
        total = {name: total[name] + spent[name] for name in pair}
    print(f"{'all of them':<34}{total['msa']:>9.0f} ms{total['conv']:>9.0f} ms\n")


def forward_backward(module: nn.Module, shape: tuple[int, ...]) -> Callable[[], None]:
    images = torch.randn(shape).to(memory_format=torch.channels_last).requires_grad_()
    gradient = torch.randn(shape).to(memory_format=torch.channels_last)
    return lambda: module(images).backward(gradient)


def context(rounds: int) -> None:
    """What Context Broadcasting adds to a training step: a mean over the tokens in half of the MLPs."""
    images, labels = torch.randn(4, 3, 224, 224), torch.randint(1000, (4,))
    plain = timm.create_model("vit_tiny_patch16_224")
    models = {
        "cb, upper layers": surgery.broadcast_context(copy.deepcopy(plain)),
        "cb, all layers": surgery.broadcast_context(copy.deepcopy(plain), layers="all"),
        "cb_s, upper layers": surgery.broadcast_context(copy.deepcopy(plain), "cb_s"),
        "the same model": copy.deepcopy(plain),  # how finely this can be measured
    }
    without = training_step(plain, images, labels)
    print(
        "Context Broadcasting in ViT-Ti: training step, 224 pixels, batch 4, fused AdamW, over the model without\n"
    )
    print(f"{'':<22}{'parameters':>12}{'step':>10}{'ratio':>8}{'quartiles':>16}")
    for name, model in models.items():
        step = training_step(model, images, labels)
        # there and back again, so that what comes first is on neither side; many short rounds, as it is about 1 %
        turns = {"without": without, "with": step, "with again": step, "without again": without}
        spent = interleaved(turns, 4 * rounds)
        ours = [a + b for a, b in zip(spent["with"], spent["with again"], strict=True)]
        theirs = [a + b for a, b in zip(spent["without"], spent["without again"], strict=True)]
        low, middle, high = statistics.quantiles([a / b for a, b in zip(ours, theirs, strict=True)], n=4)
        if name.startswith("cb"):
            goal = 1.02 if "upper" in name else None
            measured(f"a training step of ViT-Ti with {name}", "without", middle, goal)
        parameters = (
            f"{sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters()):+d}"
        )
        milliseconds = 500 * statistics.median(ours)
        print(
            f"{name:<22}{parameters:>12}{milliseconds:>7.0f} ms{middle:>8.3f}{f'{low:.3f} - {high:.3f}':>16}"
        )
    print("\ngoal of the upper layers: 1.020\n")


def local(rounds: int) -> None:
    """Local attention against attention under a boolean band mask, and against unfolding the map."""
    print(
        "Local attention: 3 heads of 64, a class token, q, k, v as views of one tensor; ratios of CPU time\n"
    )
    print(f"{'':<24}{'ours / band mask':>22}{'unfold / ours':>22}")
    print(f"{'grid, kernel, batch':<24}{'forward':>11}{'+ backward':>11}{'forward':>11}{'+ backward':>11}")
    for side, batch in ((8, 32), (14, 16), (32, 2), (56, 1)):
        for kernel in (k for k in (3, 5, 7, 9) if k < side):
            ours = LocalAttention((side, side), kernel, prefix=1)
            masked = partial(F.scaled_dot_product_attention, attn_mask=ours.seen())
            patches = partial(unfolded, side=side, kernel=kernel)
            cells = [
                attention_ratio(*pair, batch, 1 + side * side, rounds, backward)
                for pair in ((ours, masked), (patches, ours))
                for backward in (False, True)
            ]
            print(f"{f'{side}x{side}, {kernel}, {batch}':<24}" + "".join(f"{cell:>11.2f}" for cell in cells))
            if kernel == 5:
                shown = f"local attention of 5x5 on {side}x{side}, forward and backward"
                measured(shown, "a band mask", cells[1], 1.05, "most", "peer")
                measured(
                    f"{shown}, unfolded", "vitscope's", cells[3], 5.0 if side >= 32 else 1.0, "least", "peer"
                )
    print("\ngoals: at most 1 (where both are the same kernel, 1 is what noise makes of it), at least 5\n")


def attention_ratio(
    one: Callable[..., Tensor],
    other: Callable[..., Tensor],
    batch: int,
    tokens: int,
    rounds: int,
    backward: bool,
) -> float:
    """One over the other, there and back again: what follows a larger one finds its caches cold."""
    packed = torch.randn(batch, tokens, 3, 3, 64).requires_grad_(backward)
    gradient = torch.randn(batch, 3, tokens, 64)

    def run(attend: Callable[..., Tensor]) -> None:
        found = attend(*packed.permute(2, 0, 3, 1, 4).unbind(0))
        if backward:
            found.backward(gradient)

    turns = {"one": one, "other": other, "other again": other, "one again": one}
    spent = interleaved({name: partial(run, attend) for name, attend in turns.items()}, rounds)
    ours, theirs = (
        [a + b for a, b in zip(spent[name], spent[f"{name} again"], strict=True)] for name in ("one", "other")
    )
    return ratio(ours, theirs)


def unfolded(query: Tensor, key: Tensor, value: Tensor, side: int, kernel: int) -> Tensor:
    """Local attention as it is usually written: `F.unfold` makes k² copies of every key and value."""
    images, heads, tokens, width = query.shape

    def patches(x: Tensor) -> Tensor:
        on_map = x[:, :, 1:].mT.reshape(-1, width, side, side)
        return F.unfold(on_map, kernel, padding=kernel // 2).view(images, heads, width, kernel**2, tokens - 1)

    inside = F.unfold(torch.ones(1, 1, side, side), kernel, padding=kernel // 2)[0].T > 0
    points = query[:, :, 1:] * width**-0.5
    scores = torch.einsum("nhpc,nhckp->nhpk", points, patches(key)).masked_fill(~inside, float("-inf"))
    scores = torch.cat([points @ key[:, :, :1].mT, scores], -1)
    first, near = scores.softmax(-1).split([1, kernel**2], -1)
    found = torch.einsum("nhpk,nhckp->nhpc", near, patches(value)) + first @ value[:, :, :1]
    return torch.cat([F.scaled_dot_product_attention(query[:, :, :1], key, value), found], 2)


# A section is a function of the number of rounds that prints its table; its line here is its name on the command line.
SECTIONS: dict[str, Callable[[int], None]] = {
    "alternet": alternet,
    "context": context,
    "local": local,
}

if __name__ == "__main__":
    main()
