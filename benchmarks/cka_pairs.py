"""CKA of all pairs of ResNet-50's 53 convolutions against the libraries people use, in CPU time inside one process.

    python benchmarks/cka_pairs.py [--rounds 3] [--images 256] [--batch 128]

Ours is what the exam does inside its taps: a Gram matrix per output, and one matrix product for all pairs. The
others run if they are installed (pip install torch-cka pytorch-cka). The error is the largest deviation from the
same CKA in float64. Goals: at least 12 times faster than torch-cka, and within 1e-5.
"""

import argparse
import contextlib
import io
import statistics
import time
import warnings
from collections.abc import Callable

import timm
import torch
from ratios import measured
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from vitscope.exams.features.cka import gram, hsic_of_pairs

Way = Callable[[nn.Module, list[str], Tensor, int], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # threads that wait for each other count as CPU time
    warnings.filterwarnings("ignore")
    model = timm.create_model("resnet50").eval()
    layers = [name for name, module in model.named_modules() if isinstance(module, nn.Conv2d)]
    images = torch.randn(options.images, 3, 32, 32)
    exact = ours(model.double(), layers, images.double(), options.batch, in_double)
    model.float()
    ways: dict[str, Way] = {"forward": forward, "vitscope": ours, **installed()}
    seconds: dict[str, list[float]] = {label: [] for label in ways}
    found = {}
    for _ in range(options.rounds):
        for label, way in ways.items():
            start = time.process_time()
            found[label] = way(model, layers, images, options.batch)
            seconds[label].append(time.process_time() - start)
    print(f"{len(layers)} layers, {options.images} images in batches of {options.batch}")
    print(f"{'':<14}{'CPU s':>8}{'/ forward':>11}{'/ vitscope':>12}{'error':>10}")
    for label, times in seconds.items():
        relative = [
            statistics.median(t / b for t, b in zip(times, seconds[base], strict=True)) for base in ways
        ]
        error = "" if label == "forward" else f"{float((found[label].double() - exact).abs().max()):.0e}"
        print(
            f"{label:<14}{statistics.median(times):>8.2f}{relative[0]:>11.2f}{relative[1]:>12.2f}{error:>10}"
        )
        if label == "vitscope":
            measured("CKA of all pairs of 53 convolutions", "a forward pass of ResNet-50", relative[0], 1.5)
        elif label != "forward":
            goal = 12.0 if label == "torch-cka" else 1.0
            measured(f"CKA by {label}", "vitscope's", relative[1], goal, "least", "peer")


@torch.inference_mode()
def forward(model: nn.Module, layers: list[str], images: Tensor, batch: int) -> Tensor:
    for piece in images.split(batch):
        model(piece)
    return torch.empty(0)


def in_double(feature: Tensor) -> Tensor:
    flat = feature.flatten(1)
    return flat @ flat.T


@torch.inference_mode()
def ours(
    model: nn.Module, layers: list[str], images: Tensor, batch: int, kernel: Callable[[Tensor], Tensor] = gram
) -> Tensor:
    grams: list[Tensor] = []
    hooks = [
        model.get_submodule(layer).register_forward_hook(lambda *args: grams.append(kernel(args[2])))
        for layer in layers
    ]
    total = torch.zeros(len(layers), len(layers), dtype=torch.float64)
    for piece in images.split(batch):
        grams.clear()
        model(piece)
        total += hsic_of_pairs(torch.stack(grams))
    for hook in hooks:
        hook.remove()
    own = total.diagonal().sqrt()
    return total / own[:, None] / own


def installed() -> dict[str, Way]:
    found: dict[str, Way] = {}
    with contextlib.suppress(ImportError):
        import cka

        @torch.inference_mode()
        def pytorch_cka(model: nn.Module, layers: list[str], images: Tensor, batch: int) -> Tensor:
            with contextlib.redirect_stderr(io.StringIO()):
                return cka.compute_cka(model, model, loader(images, batch), layers=layers, device="cpu")[0]

        found["pytorch-cka"] = pytorch_cka
    with contextlib.suppress(ImportError):
        from torch_cka import CKA

        @torch.inference_mode()
        def torch_cka(model: nn.Module, layers: list[str], images: Tensor, batch: int) -> Tensor:
            with contextlib.redirect_stderr(io.StringIO()):
                compare = CKA(model, model, model1_layers=layers, model2_layers=layers, device="cpu")
                compare.compare(loader(images, batch))
            for module in model.modules():
                module._forward_hooks.clear()  # it never takes its hooks off
            return compare.export()["CKA"]

        found["torch-cka"] = torch_cka
    return found


def loader(images: Tensor, batch: int) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(images), batch_size=batch)


if __name__ == "__main__":
    main()
