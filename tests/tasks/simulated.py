"""Images drawn from a known law, so that AP and mIoU of all images that there could be are known.

`python -m tests.tasks.simulated` prints how often intervals hold them, in per cent, and how wide they are; such
figures are in docs/exams/detection.md and docs/exams/segmentation.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vitscope.core.bootstrap import biased_intervals, known_intervals, percentile_interval, poisson_weights
from vitscope.tasks.average_precision import Matched, class_precision
from vitscope.tasks.segmentation import class_iou, mean_iou

MANY = 20_000  # images that stand for all
SIZES = (8, 20, 40, 100, 300)


@dataclass(frozen=True)
class World:
    """Objects and a detector; numbers without a unit are on the scale of logits, or of scores."""

    classes: tuple[
        tuple[float, float], ...
    ]  # objects in an image that has some, and the share of these images
    found: float  # how likely an object is
    apart: float  # scores of what is found from those of what is not there
    wrong: float  # boxes on nothing in an image
    fit: float  # of boxes
    differ: float  # images, in how hard they are


OBJECTS = {
    "good": World(((2, 1.0), (1, 0.8), (1, 0.6)), 2.2, 2.5, 1.0, 1.5, 0.8),
    "poor": World(((2, 1.0), (1, 0.8), (1, 0.5)), -0.3, 1.0, 3.0, -0.2, 1.0),
    "rare classes": World(((2, 1.0), (1, 0.5), (1, 0.25), (1, 0.12), (1, 0.05)), 1.2, 1.8, 1.0, 0.7, 0.8),
    "one class": World(((8, 1.0),), 1.0, 1.5, 3.0, 0.3, 1.5),
    "nearly perfect": World(((2, 1.0), (1, 0.6)), 4.0, 4.0, 0.3, 4.0, 0.5),
    "nearly blind": World(((1.5, 1.0), (1, 0.5)), -1.5, 0.5, 4.0, -1.0, 1.2),
}
# pixels: shares of images that show a class, how likely a pixel is right, how much images differ
PIXELS = {
    "good": ((1.0, 0.8, 0.6, 0.4), 2.0, 1.0),
    "poor": ((1.0, 0.6, 0.4, 0.3, 0.2), -0.5, 1.2),
    "rare classes": ((1.0, 0.5, 0.2, 0.1, 0.05), 0.8, 1.0),
    "nearly perfect": ((1.0, 0.6, 0.3), 4.0, 1.0),
    "nearly blind": ((1.0, 0.4, 0.2), -3.0, 1.5),
}


def objects_in(world: World, n: int, draw: np.random.Generator) -> Matched:
    """What a detector finds in `n` images."""
    hard = draw.normal(0, world.differ, n)
    parts, there = [], []
    for number, (mean, share) in enumerate(world.classes):
        spread = draw.gamma(2.0, 0.5, n)
        some = 1 + draw.poisson(max(mean - 1, 0.0) * spread)
        count = np.where(draw.random(n) < share, some, 0) if share < 1 else draw.poisson(mean * spread)
        there.append(np.stack([np.arange(n), np.full(n, number), count], 1))
        place = np.repeat(np.arange(n), count)
        fit = world.fit + hard[place] + draw.normal(size=len(place))
        seen = draw.random(len(place)) < 1 / (1 + np.exp(-(world.found + hard[place])))
        thresholds = np.clip(np.floor(5 + 3 * fit), 0, 10).astype(int)
        score = world.apart + 0.5 * fit + 0.3 * hard[place] + draw.normal(size=len(place))
        rate = np.exp(0.5 * draw.normal(0, world.differ, n) - 0.3 * hard)
        nothing = np.repeat(np.arange(n), draw.poisson(world.wrong / len(world.classes) * rate))
        for places, scores, right in (
            (place[seen], score[seen], (1 << thresholds[seen]) - 1),
            (nothing, draw.normal(size=len(nothing)), np.zeros(len(nothing), int)),
        ):
            parts.append((places, np.full(len(places), number), scores, right[:, None]))
    places, classes, scores, right = (np.concatenate(own) for own in zip(*parts, strict=True))
    return Matched(places, classes, scores, right, np.zeros_like(right), np.concatenate(there))


def pixels_in(world: str, n: int, draw: np.random.Generator) -> np.ndarray:
    """(n, 3, classes): pixels of images of 64 x 64 that are right, there, predicted."""
    shares, right, differ = PIXELS[world]
    k = len(shares)
    area = np.where(draw.random((n, k)) < shares, draw.lognormal(0, 1, (n, k)), 0.0)
    area[:, 0] += 1.5  # background
    area *= 4096 / area.sum(1, keepdims=True)
    hard = draw.normal(0, differ, (n, 1))
    logit = right + hard + draw.normal(0, 0.7, (n, k))
    logit[:, 0] = right + 2 + hard[:, 0]
    hits = np.floor(area / (1 + np.exp(-logit)))
    other = draw.dirichlet(np.full(k, 0.5), (n, k))
    other[:, np.arange(k), np.arange(k)] = 0.0
    other[:, 1:, 0] += 0.5  # what is missed passes for background more often
    other /= other.sum(2, keepdims=True)
    said = hits + np.einsum("nk,nkj->nj", area - hits, other)
    return np.stack([hits, area, said], 1)


def drawn_precision(
    world: str, n: int, times: int, replicates: int = 200, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of as many data sets of `n` images: AP of every class (1 + replicates, classes), the truth, images with it."""
    own, draw = OBJECTS[world], np.random.default_rng([seed, n])
    k, weights = len(own.classes), poisson_weights(np.arange(n), seed, replicates)
    many = objects_in(own, MANY, np.random.default_rng(seed + 1))
    truth = class_precision(many, k, np.ones((MANY, 1)))[0].mean(1)
    for _ in range(times):
        found = objects_in(own, n, draw)
        images = np.bincount(found.there[:, 1], found.there[:, 2] > 0, k).astype(int)
        yield class_precision(found, k, weights).mean(2), truth, images


def held_precision(world: str, n: int, times: int, replicates: int = 200) -> dict[str, tuple[float, float]]:
    """How often, and how wide, intervals of AP are; and those of AP of the rarest class, over images that show it."""
    held: dict[str, list[tuple[bool, float]]] = {"ours": [], "plain": [], "class": [], "class, plain": []}
    for drawn, truth, images in drawn_precision(world, n, times, replicates):
        known = images > 0
        with np.errstate(invalid="ignore"):
            every = np.nansum(drawn, 1) / (~np.isnan(drawn)).sum(1)
        _hold(held["ours"], biased_intervals(every, n), truth[known].mean())
        _hold(held["plain"], percentile_interval(every[1:]), truth[known].mean())
        if known[-1]:
            _hold(held["class"], biased_intervals(drawn[:, -1], images[-1]), truth[-1])
            _hold(held["class, plain"], percentile_interval(drawn[1:, -1]), truth[-1])
    return {name: _means(rows) for name, rows in held.items()}


def held_iou(
    world: str, n: int, times: int, replicates: int = 200, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """The same of mIoU, and of the IoU of the rarest class; `plain` is the middle of replicates, for few images."""
    draw, weights = np.random.default_rng([seed, n]), poisson_weights(np.arange(n), seed, replicates)
    truth = class_iou(pixels_in(world, MANY, np.random.default_rng(seed + 1)).sum(0))
    held: dict[str, list[tuple[bool, float]]] = {"ours": [], "plain": [], "class": [], "class, plain": []}
    for _ in range(times):
        pixels = pixels_in(world, n, draw)
        tables = np.tensordot(weights, pixels, (0, 0))
        drawn, rarest = mean_iou(tables), class_iou(tables)[:, -1]
        known = ~np.isnan(class_iou(tables[0]))
        _hold(held["ours"], biased_intervals(drawn, n), truth[known].mean())
        _hold(held["plain"], known_intervals(drawn, n), truth[known].mean())
        if pixels[:, 1, -1].any():
            images = int(pixels[:, 1:, -1].any(1).sum())
            _hold(held["class"], biased_intervals(rarest, images), truth[-1])
            _hold(held["class, plain"], known_intervals(rarest, n), truth[-1])
    return {name: _means(rows) for name, rows in held.items()}


def _hold(rows: list[tuple[bool, float]], ends: tuple[np.ndarray, np.ndarray], truth: float) -> None:
    rows.append((bool(ends[0] <= truth <= ends[1]), float(ends[1] - ends[0])))


def _means(rows: list[tuple[bool, float]]) -> tuple[float, float]:
    held, width = np.mean(rows, axis=0) if rows else (np.nan, np.nan)
    return float(held), float(width)


if __name__ == "__main__":
    for what, worlds, hold in (("AP", OBJECTS, held_precision), ("mIoU", PIXELS, held_iou)):
        for name in worlds:
            for n in SIZES:
                found = hold(name, n, 500)
                said = "  ".join(
                    f"{key} {100 * held:.1f} ({width:.2f})" for key, (held, width) in found.items()
                )
                print(f"{what}, {name}, {n} images: {said}", flush=True)
