"""What the feature exams cost on top of a plain forward pass, as a ratio of CPU time inside one process.

    python benchmarks/one_pass.py [--rounds 3] [--images 32]

Each model is run on the same images in three ways, in turn: alone; with `fourier` and `variance` in one pass;
and with the obvious way to get the same numbers, a two-dimensional FFT and `torch.var` of every map. What
happens once (finding the anatomy) is left out by taking the difference between a long and a short run. Goals:
1.10 for a ViT, 1.30 for a ResNet-50.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import timm
import torch
from torch import Tensor, nn

from vitscope.anatomy import Tap, anatomy
from vitscope.exams import EXAMS, examine

MODELS = {"vit_small_patch16_224": 1.10, "resnet50": 1.30}
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=32, help="images in the difference, a multiple of 32")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # threads that wait for each other count as CPU time
    print(f"{'model':<24}{'forward':>12}{'one pass':>10}{'goal':>7}{'fft2 + var':>12}")
    for name, goal in MODELS.items():
        model = timm.create_model(name).eval()
        images = torch.randn(BATCH + options.images, 3, 224, 224)
        ways: list[Callable[[nn.Module, Tensor], None]] = [forward, one_pass, obvious]
        seconds = [[marginal(way, model, images) for way in ways] for _ in range(options.rounds)]
        plain = statistics.median(row[0] for row in seconds)
        ratios = [statistics.median(row[i] / row[0] for row in seconds) for i in (1, 2)]
        per_image = f"{1000 * plain / options.images:.0f} ms/image"
        print(f"{name:<24}{per_image:>12}{ratios[0]:>10.2f}{goal:>7.2f}{ratios[1]:>12.2f}")


def marginal(way: Callable[[nn.Module, Tensor], None], model: nn.Module, images: Tensor) -> float:
    """CPU seconds of all images minus those of the first batch."""
    return cpu_seconds(way, model, images) - cpu_seconds(way, model, images[:BATCH])


def cpu_seconds(way: Callable[[nn.Module, Tensor], None], model: nn.Module, images: Tensor) -> float:
    start = time.process_time()
    way(model, images)
    return time.process_time() - start


@torch.inference_mode()
def forward(model: nn.Module, images: Tensor) -> None:
    for batch in images.split(BATCH):
        model(batch)


def one_pass(model: nn.Module, images: Tensor) -> None:
    labels = torch.zeros(len(images), dtype=torch.long)
    examine(model, (images, labels), [EXAMS["fourier"], EXAMS["variance"]], batch_size=BATCH)


def obvious(model: nn.Module, images: Tensor) -> None:
    parts = anatomy(model, (3, 224, 224))

    def measure(_: object, feature: Tensor) -> None:
        (torch.fft.fft2(feature).abs() + 1e-6).log().mean((0, 1))
        feature.var(dim=(2, 3)).mean()

    with torch.inference_mode(), Tap(model, parts, parts.mapped, on_feature=measure):
        for batch in images.split(BATCH):
            model(batch)


if __name__ == "__main__":
    main()
