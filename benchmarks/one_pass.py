"""What the streaming exams cost on top of a plain forward pass, as ratios of CPU time inside one process.

    python benchmarks/one_pass.py [--rounds 3] [--batches 2] [--models resnet50@32 ...]

Each model is run on the same images in several ways, in turn: alone; with a growing set of exams in one pass; and
with the obvious way to get the numbers of the first two, an FFT and `torch.var` of every map. What happens once
(finding the anatomy) is left out by taking the difference between a long and a short run. A ratio is the median
over rounds.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import timm
import torch
from ratios import measured
from torch import Tensor, nn

from vitscope.anatomy import Tap, anatomy
from vitscope.exams import EXAMS, Accumulator, examine

Way = Callable[[nn.Module, Tensor, int], None]


@dataclass(frozen=True)
class Case:
    """A model at one input size, and what the exams may cost on it."""

    create: Callable[[], nn.Module]
    side: int
    batch: int
    goals: dict[str, float]


CASES = {
    "resnet50@32": Case(partial(timm.create_model, "resnet50"), 32, 128, {"fourier, variance": 1.30}),
    "vit_tiny/4@32": Case(
        partial(timm.create_model, "vit_tiny_patch16_224", img_size=32, patch_size=4),
        32,
        128,
        {"fourier, variance": 1.10},
    ),
    "vit_tiny/16@224": Case(
        partial(timm.create_model, "vit_tiny_patch16_224"), 224, 32, {"fourier, variance": 1.10}
    ),
}
SETS = {
    "fourier, variance": ["fourier", "variance"],
    "+ cka": ["fourier", "variance", "cka"],
    "+ attention": ["fourier", "variance", "cka", "attention"],
}
OBVIOUS = "fft2, var by hooks"
GOALS = {"+ cka": 1.5, "+ attention": 1.8}  # for every model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=2, help="batches in the difference")
    parser.add_argument("--models", nargs="+", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads that wait for each other count as CPU time
    warnings.filterwarnings("ignore")
    print(f"{'model':<17}{'':<22}{'CPU time':>14}{'ratio':>8}{'goal':>8}")
    for name in options.models:
        report(name, CASES[name], options.rounds, options.batches)


def report(name: str, case: Case, rounds: int, batches: int) -> None:
    torch.manual_seed(0)
    model = case.create().eval()
    images = torch.randn((1 + batches) * case.batch, 3, case.side, case.side)
    ways: dict[str, Way] = {"forward": forward}
    ways |= {label: partial(one_pass, exams=exams) for label, exams in SETS.items()}
    ways |= {OBVIOUS: obvious, "cka alone": partial(one_pass, exams=["cka"])}
    seconds = [
        {label: marginal(way, model, images, case.batch) for label, way in ways.items()}
        for _ in range(rounds)
    ]
    plain = statistics.median(row["forward"] for row in seconds) / (len(images) - case.batch)
    goals, shown = {**GOALS, **case.goals}, name
    for label in ways:
        ratio = statistics.median(row[label] / row["forward"] for row in seconds)
        cost = f"{1000 * plain:.2f} ms/image" if label == "forward" else ""
        goal = f"{goals[label]:.2f}" if label in goals else ""
        print(f"{shown:<17}{label:<22}{cost:>14}{ratio:>8.2f}{goal:>8}", flush=True)
        shown = ""
        if label in SETS:
            exams = ", ".join(SETS[label])
            measured(f"a pass with {exams}", f"a forward pass of {name}", ratio, goals.get(label))
    by_hand = statistics.median(row[OBVIOUS] / row["fourier, variance"] for row in seconds)
    measured(
        "fft2 and var in hooks", f"a pass with fourier, variance of {name}", by_hand, 1.0, "least", "peer"
    )


def marginal(way: Way, model: nn.Module, images: Tensor, batch: int) -> float:
    """CPU seconds of all images minus those of the first batch."""
    return cpu_seconds(way, model, images, batch) - cpu_seconds(way, model, images[:batch], batch)


def cpu_seconds(way: Way, model: nn.Module, images: Tensor, batch: int) -> float:
    start = time.process_time()
    way(model, images, batch)
    return time.process_time() - start


@torch.inference_mode()
def forward(model: nn.Module, images: Tensor, batch: int) -> None:
    for piece in images.split(batch):
        model(piece)


def one_pass(model: nn.Module, images: Tensor, batch: int, exams: list[str]) -> None:
    chosen = [
        exam for name in exams if isinstance(exam := EXAMS[name], type) and issubclass(exam, Accumulator)
    ]
    examine(model, (images, torch.zeros(len(images), dtype=torch.long)), chosen, batch_size=batch)


def obvious(model: nn.Module, images: Tensor, batch: int) -> None:
    parts = anatomy(model, tuple(images.shape[1:]))

    def measure(_: object, feature: Tensor) -> None:
        (torch.fft.fft2(feature).abs() + 1e-6).log().mean((0, 1))
        feature.var(dim=(2, 3)).mean()

    with torch.inference_mode(), Tap(model, parts, parts.mapped, on_feature=measure):
        for piece in images.split(batch):
            model(piece)


if __name__ == "__main__":
    main()
