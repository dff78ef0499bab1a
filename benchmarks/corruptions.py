"""Corrupted images against the reference package, and the corruption exam against plain passes, in CPU time.

    python benchmarks/corruptions.py generation [--side 224] [--images 16] [--rounds 3]
    python benchmarks/corruptions.py suite [--images 400] [--model resnet_mini]
    python benchmarks/corruptions.py both

`generation` makes every type at severities 1, 3 and 5 by both in turn (pip install imagecorruptions-imaug), one
thread, and takes the median round. Goal: no type slower than in the package. `suite` runs the exam without a cache,
with an empty one and with a full one, and plain passes of the model over the same images before and after each; time of
worker processes counts. Goals: at most 1.3 of the 76 plain passes on top of generation; with a full cache nothing but
passes.
"""

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from ratios import measured as tell

import vitscope as vs
from vitscope.data import ImageData, batches
from vitscope.data.corruptions import SEVERITIES, TYPES, corrupt
from vitscope.data.corruptions.cache import CleanImagesWriter
from vitscope.data.corruptions.registry import IMAGENET

PLAIN = 10  # passes that are timed before and after every exam


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("generation", "suite", "both"))
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="resnet_mini")
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads that wait for each other count as CPU time
    warnings.filterwarnings("ignore")
    if options.what != "suite":
        generation(options.side, options.images or 16, options.rounds)
    if options.what != "generation":
        suite(options.model, options.images or 400)


def generation(side: int, images: int, rounds: int) -> None:
    from imagecorruptions import corrupt as reference
    from PIL import Image
    from skimage import data

    whole = Image.fromarray(data.astronaut())
    places = np.random.default_rng(0).integers(0, 512 - 200, (images, 2)).tolist()
    pictures = np.stack(
        [np.asarray(whole.crop((x, y, x + 200, y + 200)).resize((side, side))) for x, y in places]
    )
    tensor = torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()
    totals, slower = [0.0, 0.0], []
    print(f"{images} images of {side} pixels, severities 1, 3 and 5, milliseconds of CPU time per image")
    print(f"{'':<20}{'vitscope':>10}{'package':>10}{'ratio':>8}")
    for kind in TYPES:
        times = [0.0, 0.0]
        for severity in (1, 3, 5):
            strength = IMAGENET[kind][severity - 1]
            ways = (
                partial(corrupt, tensor, kind, severity, strength=strength),
                partial(one_by_one, reference, pictures, severity, kind),
            )
            for i, seconds in enumerate(in_turn(ways, rounds)):
                times[i] += 1000 * seconds / images / 3
        ours, theirs = times
        totals = [totals[0] + ours, totals[1] + theirs]
        slower += [kind] if ours > theirs else []
        print(f"{kind:<20}{ours:>10.3f}{theirs:>10.3f}{theirs / ours:>8.1f}", flush=True)
    print(f"{'all 15 types':<20}{totals[0]:>10.3f}{totals[1]:>10.3f}{totals[1] / totals[0]:>8.1f}")
    print(f"slower than the package: {', '.join(slower) or 'none'}")
    what = f"15 corruptions of {side} pixels by imagecorruptions-imaug"
    tell(what, "vitscope's", totals[1] / totals[0], 1.0, "least", "peer")
    tell("types of corruption that are slower", "none", len(slower), 0.0, "most", "peer")


def one_by_one(reference: Callable[..., np.ndarray], pictures: np.ndarray, severity: int, kind: str) -> None:
    for picture in pictures:
        reference(picture, severity, kind)


def in_turn(ways: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """CPU seconds of each way, the median over rounds in which each has its turn."""
    for way in ways:
        way()  # tables are made, and code is compiled, once
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, found in zip(ways, times, strict=True):
            start = time.process_time()
            way()
            found.append(time.process_time() - start)
    return [statistics.median(found) for found in times]


def suite(name: str, images: int) -> None:
    model = vs.create_model(name, pretrained=True).eval()
    data = vs.load_data("fashion")
    passes = 1 + len(TYPES) * len(SEVERITIES)

    def exam(cache: bool = True) -> object:
        return vs.exams.corruption(model, data, limit=images, cache=cache)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["VITSCOPE_DATA"] = folder
        alone = generated(model, data, images, folder)
        steps = {"no cache": lambda: exam(cache=False), "empty cache": exam, "full cache": exam}
        found, base = {}, []
        for label, step in steps.items():
            base.append(measured(lambda: plain(model, data, images)) / PLAIN * passes)
            found[label] = measured(step)
        base.append(measured(lambda: plain(model, data, images)) / PLAIN * passes)
    scale = statistics.mean(base)
    print(f"{name}, {images} images, {passes} passes; CPU s")
    print(f"{'':<20}{'total':>8}{'/ plain':>9}{'less generation / plain':>25}")
    print(f"{'plain passes':<20}{scale:>8.1f}{1:>9.2f}")
    print(f"{'generation':<20}{alone:>8.1f}{alone / scale:>9.2f}")
    for label, seconds in found.items():
        rest = seconds if label == "full cache" else seconds - alone
        print(f"{'exam, ' + label:<20}{seconds:>8.1f}{seconds / scale:>9.2f}{rest / scale:>25.2f}")
        if label != "empty cache":
            goal = 1.3 if label == "no cache" else 1.1
            tell(f"the corruption suite, {label}, without generation", f"{passes} passes", rest / scale, goal)


def measured(step: Callable[[], object]) -> float:
    """CPU time of this process and of those that it started and waited for."""
    before = os.times()
    step()
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


@torch.inference_mode()
def plain(model: torch.nn.Module, data: ImageData, images: int) -> None:
    for _ in range(PLAIN):
        for batch, _, _ in batches(data, model, limit=images):
            model(batch)


def generated(model: torch.nn.Module, data: ImageData, images: int, folder: str) -> float:
    """CPU time that all types and severities take in this process."""
    writer = CleanImagesWriter(Path(folder) / "clean", 128)
    for batch, labels, indices in batches(data, model, limit=images):
        low, high = batch.amin(), batch.amax()
        writer.add((255 * (batch - low) / (high - low)).to(torch.uint8), labels, indices)
    share = writer.finish()

    def all_of_them() -> None:
        for kind in TYPES:
            for severity in SEVERITIES:
                for rows in share.batches:
                    corrupt(share.read(rows), kind, severity, 0, share.indices[rows])

    return measured(all_of_them)


if __name__ == "__main__":
    main()
