"""What a training step costs beside timm's own and the published loop, as ratios of CPU time inside one process.

    python benchmarks/training.py [resnet18 ...] [--rounds 7] [--steps 3]

Every variant takes the same model, weights, images and mixing (32 pixels, recipe `hdv`), a few steps in turn, one round
after the other, on one thread (threads that wait for each other count as CPU time). A ratio is the median over the
rounds of the ratios inside a round. The overhead is small beside the noise of a step, so it has rounds of its own: one
step of each, in turn first and second, and the interval of the median. ResNets come twice: timm's own, made for 224
pixels, and `..._32` with the stem for 32 pixels that the papers use, in smaller batches, because it has many times the
work.

- published: AdamW as torch makes it by default, contiguous tensors; the loop of the first paper's code.
- timm: what timm's training script does in a step: its optimiser, loss and mixing, contiguous by default.
- vitscope: `Stepper`, with everything it does in a step: seeding, parts, watching for NaN, the schedule.
- bare: mixing, forward, backward and optimiser step alone, with vitscope's optimiser, layout and handling of memory.
  vitscope / bare is the loop's own overhead.

The last part trains for real, with one thread and one process that loads images, and shows the share of the time that
steps waited for them.
"""

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import pandas as pd
import timm
import torch
from ratios import measured
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from torch import Tensor, nn

from vitscope.core.tensors import kept_memory
from vitscope.data import data_config, load_data
from vitscope.models import create_model
from vitscope.recipes.augment import AugmentedData
from vitscope.training import get_recipe, train
from vitscope.training.checkpoint import Progress
from vitscope.training.numerics import lay_out
from vitscope.training.optimizer import build_optimizer
from vitscope.training.steps import Stepper

MODELS = {
    "resnet18": 96,
    "resnet50": 96,
    "vit_tiny_patch4_32": 32,
    "resnet18_32": 32,
    "resnet50_32": 16,
}  # and the size of a batch
CLASSES = 10
Step = Callable[[], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="of a variant in a round")
    parser.add_argument("--pairs", type=int, default=40, help="of steps that measure the overhead")
    parser.add_argument(
        "--compile", action="store_true", help="also vitscope with torch.compile (minutes more)"
    )
    parser.add_argument("--no-waiting", action="store_true", help="leave out the part that trains for real")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"a training step at 32 pixels, {options.rounds} rounds of {options.steps} steps, one thread\n")
    names = ("published", "timm", "vitscope", "bare", *(("compiled",) if options.compile else ()))
    print(
        f"{'model':<20}" + "".join(f"{f'{n}, ms':>15}" for n in names) + f"{'speed-up':>12}{'overhead':>22}"
    )
    for model in options.models:
        ways = variants(model, MODELS[model], names)
        seconds = interleaved(ways, options.rounds, options.steps)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        best = min(("published", "timm"), key=lambda name: medians[name])
        gain = ratio(seconds[best], seconds["vitscope"])
        low, overhead, high = (100 * (r - 1) for r in paired(ways["vitscope"], ways["bare"], options.pairs))
        for peer, whose in (("published", "the published loop's"), ("timm", "timm's")):
            share = ratio(seconds["vitscope"], seconds[peer])
            measured(f"a training step of {model}, batch {MODELS[model]}", whose, share, 1.0, "most", "peer")
        measured(f"a training step of {model}", "its bare arithmetic", 1 + overhead / 100, 1.02)
        compiled = f", compiled {ratio(seconds[best], seconds['compiled']):.2f}x" if options.compile else ""
        print(
            f"{f'{model}, {MODELS[model]}':<24}"
            + "".join(f"{1000 * medians[n]:>15.0f}" for n in names)
            + f"{gain:>11.2f}x{f'{overhead:.1f} % [{low:.1f}, {high:.1f}]':>22}{compiled}",
            flush=True,
        )
    print(
        "\nspeed-up: over the better of published and timm; goal 1.10 on two of three. overhead: goal 2 %\n"
    )
    if not options.no_waiting:
        waiting()


def interleaved(variants: Mapping[str, Step], rounds: int, steps: int) -> dict[str, list[float]]:
    """CPU seconds per step of each variant in each round, after one to warm up; the first step of each is not timed."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(1 + rounds):
        for name, step in variants.items():
            keeps = name not in ("published", "timm")
            with kept_memory(torch.device("cpu")) if keeps else nullcontext():
                step()
                start = time.process_time()
                for _ in range(steps):
                    step()
                if turn:
                    seconds[name].append((time.process_time() - start) / steps)
    return seconds


def paired(ours: Step, theirs: Step, pairs: int) -> tuple[float, float, float]:
    """The median of the ratios of pairs of steps, between the ends of its 95 % interval."""
    found = []
    with kept_memory(torch.device("cpu")):
        for turn in range(pairs):
            seconds = {}
            for step in (ours, theirs) if turn % 2 else (theirs, ours):
                start = time.process_time()
                step()
                seconds[step] = time.process_time() - start
            found.append(seconds[ours] / seconds[theirs])
    found.sort()
    first = max(0, int(pairs / 2 - 1 - 0.98 * pairs**0.5))  # by the ranks of a binomial with p = 1/2
    return found[first], statistics.median(found), found[pairs - 1 - first]


def ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def variants(name: str, batch: int, names: Sequence[str]) -> dict[str, Step]:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=CLASSES)
    model.pretrained_cfg = {**model.pretrained_cfg, "input_size": (3, 32, 32)}
    data = load_data("fashion", split="train").subset(range(batch))
    makers: dict[str, Callable[[nn.Module], Step]] = {
        "published": lambda own: published(own, *examples(own, data)),
        "timm": lambda own: timm_step(own, *examples(own, data)),
        "vitscope": lambda own: ours(own, data),
        "bare": lambda own: bare(own, *examples(own, data)),
        "compiled": lambda own: ours(own, data, compiled=True),
    }
    return {name: makers[name](copy.deepcopy(model)) for name in names}


def recipe(batch: int):
    return replace(get_recipe("hdv"), batch_size=batch, drop_path=0.0)


def examples(model: nn.Module, data) -> tuple[Tensor, Tensor]:
    """The batch, augmented once: augmentation is done by other processes and costs a step nothing."""
    augmented = AugmentedData(data, recipe(len(data)), data_config(model), 0)
    images, labels = zip(*(augmented[i] for i in range(len(data))), strict=True)
    return torch.stack(images), torch.tensor(labels)


def mixing() -> Mixup:
    return Mixup(1.0, 0.8, prob=1.0, label_smoothing=0.1, num_classes=CLASSES)


def published(model: nn.Module, images: Tensor, labels: Tensor) -> Step:
    mix, loss = mixing(), SoftTargetCrossEntropy()
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1.25e-4, weight_decay=5e-2)

    def step() -> None:
        mixed, targets = mix(images.clone(), labels)
        optimizer.zero_grad()
        loss(model(mixed), targets).backward()
        optimizer.step()

    return step


def timm_step(model: nn.Module, images: Tensor, labels: Tensor) -> Step:
    mix, loss = mixing(), SoftTargetCrossEntropy()
    optimizer = create_optimizer_v2(model.train(), opt="adamw", lr=1.25e-4, weight_decay=5e-2)

    def step() -> None:
        mixed, targets = mix(images.clone(), labels)
        output = loss(model(mixed), targets)
        output.backward()
        optimizer.step()
        optimizer.zero_grad()
        output.item()  # for its log

    return step


def ours(model: nn.Module, data, compiled: bool = False) -> Step:
    choices = replace(recipe(len(data)), compile=compiled)
    stepper = Stepper(model, data, data_config(model), CLASSES, choices, 0, torch.device("cpu"))
    images, labels = examples(model, data)
    stepper.running.train()
    progress, batch = Progress(), list(range(len(data)))

    def step() -> None:
        stepper._step(images, labels, batch, True, progress, nullcontext)

    return step


def bare(model: nn.Module, images: Tensor, labels: Tensor) -> Step:
    layout = lay_out("auto", model, torch.device("cpu"))
    model.train()
    optimizer = build_optimizer(model, recipe(len(images)), torch.device("cpu"))
    mix = mixing()

    def step() -> None:
        mixed, targets = mix(images.clone(memory_format=layout), labels)
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(mixed), targets).backward()
        optimizer.step()

    return step


def waiting() -> None:
    print("share of the time that steps wait for images, one epoch of 1,920 images, one process loads them\n")
    data = load_data("fashion", split="train").subset(range(1920))
    for name in ("resnet_mini", "vit_mini", "vit_tiny_patch4_32", "resnet18_32"):
        small = data if name.endswith("mini") else data.subset(range(480))
        with tempfile.TemporaryDirectory() as folder:
            train(create_model(name, num_classes=CLASSES), small, "hdv", folder + "/run", epochs=1,
                  batch_size=32, changes={"warmup_epochs": 0.0}, workers=1, progress=False)  # fmt: skip
            row = pd.read_csv(folder + "/run/metrics.csv").iloc[-1]
        print(
            f"{name:<20}{row['waiting']:>8.1%} of the time at {row['images_per_second']:.0f} images/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
