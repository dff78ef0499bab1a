"""Shape or texture: does a model go by low or by high frequencies, by phase or by amplitude?

Two pictures a and b of different classes, both classified rightly, are mixed and shown to the model:

    bands    x = F^-1(F(a) * L + F(b) * (1 - L))             L = 1 where |f| < cutoff, else 0
    phase    x = F^-1(|F(b)| exp(i arg F(a)))

Over all mixed pictures, of which every pair gives two,

    low       share of decisions for the class that the low frequencies (the phase) come from
    high      share of decisions for the class that the high frequencies (the amplitude) come from
    neither   the rest
    bias      low / (low + high): 1 if shape decides, 0 if texture does
    crossover the cutoff at which low = high, between the cutoffs by straight lines: low where shape decides

The cut is sharp, channels are swapped each on its own, and what lies beyond pi, in the corners of the plane, is high.
Of a picture and itself both ways give the picture. Pixels are not clipped: that would mix the frequencies again.

Pairs are made inside a batch: its rightly classified images, in an order drawn from the seed and their places in the
data, each with the next one of another class. No image is in two pairs, so pairs are independent, and the bootstrap
draws pairs; shares have Wilson's interval with its error.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.arguments import Positive
from vitscope.core.bootstrap import REPLICATES, poisson_weights, standard_error
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import Estimate, score_interval
from vitscope.engine.exam import ProcedureSums, procedure
from vitscope.engine.own_passes import OwnPasses, own_passes
from vitscope.engine.pixels import PAIRS, PixelModel, image_generators
from vitscope.engine.resuming import PartialResults
from vitscope.engine.scores import check_predictions
from vitscope.engine.takes_interface import Asked
from vitscope.exams.robustness.frequency_noise import below
from vitscope.findings.shape_bias import DECISIONS, PHASE, QUANTITIES, ShapeBiasResult, crossover
from vitscope.results.condition_rows import Headline

CUTOFFS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
USUAL = 0.25  # the cutoff, in units of pi, whose bias is named first: the nearest one is taken


def swap_bands(low: Tensor, high: Tensor, cutoff: float) -> Tensor:
    """Pictures (N, C, H, W): frequencies of `low` below the cutoff, in units of pi, and of `high` above it."""
    size = (low.shape[2], low.shape[3])
    kept = below(*size, cutoff).to(low)
    return torch.fft.irfft2(torch.fft.rfft2(high) + torch.fft.rfft2(low - high) * kept, s=size)


def swap_phase(phase: Tensor, amplitude: Tensor) -> Tensor:
    """Pictures (N, C, H, W) with the phases of one and the amplitudes of the other."""
    size = (phase.shape[2], phase.shape[3])
    spectrum = torch.polar(torch.fft.rfft2(amplitude).abs(), torch.fft.rfft2(phase).angle())
    return torch.fft.irfft2(spectrum, s=size)


def pairs(labels: Sequence[int]) -> list[tuple[int, int]]:
    """Places of images that make pairs of different classes, no image in two of them.

    Each image is paired with the first one before it that is still single and of another class. The singles left over
    are all of one class.
    """
    waiting: list[int] = []  # all of one class
    found = []
    for place, label in enumerate(labels):
        if waiting and labels[waiting[0]] != label:
            found.append((waiting.pop(0), place))
        else:
            waiting.append(place)
    return found


class Decisions(ProcedureSums):
    """Sums over pairs, plain (first row) and in every bootstrap replicate, per way of mixing."""

    n: Tensor
    pairs: Tensor
    sums: Tensor

    def __init__(self, ways: int, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self.add_sums(sums=(ways, 1 + REPLICATES, len(DECISIONS)))
        self.add_counts("n", "pairs")

    def update(self, images: int, shares: Tensor, indices: Tensor) -> None:
        """Take in a batch: how many images it has, (ways, pairs, decisions) of each pair's two pictures, and (pairs,)
        the place in the data of one image of each pair."""
        self.n += images
        self.pairs += len(indices)
        weights = torch.from_numpy(poisson_weights(indices.cpu().numpy(), self._seed))
        self.sums += weights.T @ shares


def decisions_for(chosen: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """(N, decisions): whether a decision is for the first label, the second, or neither; in float64."""
    low, high = chosen == first, chosen == second
    return torch.stack([low, high, ~(low | high)], 1).double()


@procedure(ShapeBiasResult, batch_matters=True, evaluation=True, resumable=True, needs_labels=True)
def shape_bias(
    model: nn.Module,
    data: Any,
    request: Asked,
    parts: PartialResults | None = None,
    cutoffs: Sequence[Positive] = CUTOFFS,
) -> ShapeBiasResult:
    """Show `model` pictures that are mixed of two classes; `examine` documents the other arguments.

    Args:
        data: Labelled images; classes should be mixed within batches.
        cutoffs: Between low and high frequencies, in units of pi.
    """
    if not cutoffs or not all(0 < cutoff < 1.5 for cutoff in cutoffs):
        raise VitscopeError(
            f"cutoffs are {tuple(cutoffs)}; expected numbers above 0, in units of pi, such as 0.25"
        )
    ordered = np.array(sorted(set(cutoffs)), dtype=np.float64)
    decisions = Decisions(len(ordered) + 1, request.seed)
    with own_passes(model, data, request, labelled=True, parts=parts) as own:
        measure = partial(_measure, own, PixelModel.of(own), ordered, request.seed)

        def take(*batch: Tensor) -> None:
            decisions.update(len(batch[0]), *measure(*batch))

        own.accumulate("shape_bias", {"decisions": decisions}, take)
        return ShapeBiasResult(**own.common, cutoff=ordered, **_summarise(ordered, **decisions.finish()))


def _measure(
    own: OwnPasses,
    seen: PixelModel,
    cutoffs: np.ndarray,
    seed: int,
    images: Tensor,
    labels: Tensor,
    indices: Tensor,
) -> tuple[Tensor, Tensor]:
    """What `Decisions` takes in of a batch: shares (ways, pairs, decisions), and a place in the data for each pair."""
    logits, truth = own.readout(seen.clean(images), labels, indices)
    check_predictions(logits.cpu(), truth.cpu(), indices.cpu())
    first, second = _pairs(logits.argmax(1) == truth, truth, indices, seed)
    if not len(first):
        return torch.zeros(len(cutoffs) + 1, 0, len(DECISIONS), dtype=torch.float64), indices[first]
    low, high = torch.cat([first, second]), torch.cat([second, first])
    pixels = seen.pixels(images)

    def decide(mixed: Tensor) -> Tensor:
        answers, _ = own.readout(seen.logits(mixed), labels[low], indices[low])
        both = decisions_for(answers.argmax(1), truth[low], truth[high])
        return both.view(2, len(first), len(DECISIONS)).mean(0).cpu()

    shares = [decide(swap_bands(pixels[low], pixels[high], float(cutoff))) for cutoff in cutoffs]
    return torch.stack([*shares, decide(swap_phase(pixels[low], pixels[high]))]), indices[first]


def _pairs(right: Tensor, labels: Tensor, indices: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Places in the batch of the first and the second image of every pair."""
    places = right.nonzero()[:, 0].cpu()
    keys = [g.random() for g in image_generators(PAIRS, seed, indices.cpu()[places])]
    places = places[np.argsort(keys, kind="stable").tolist()]
    found = torch.tensor(pairs(labels.cpu()[places].tolist()), dtype=torch.long).view(-1, 2)
    return places[found[:, 0]].to(labels.device), places[found[:, 1]].to(labels.device)


def _summarise(cutoff: np.ndarray, n: int, pairs: int, sums: np.ndarray) -> dict[str, Any]:
    """The result's own fields from the sums over pairs (ways, 1 + replicates, decisions)."""
    if not pairs:
        nothing = np.zeros((0, len(QUANTITIES)))
        return {"n": n, "pairs": 0, "value": nothing, "low": nothing, "high": nothing, "headlines": ()}
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = sums / sums.sum(2, keepdims=True)
        bias = sums[:, :, 0] / (sums[:, :, 0] + sums[:, :, 1])
    drawn = np.concatenate([shares, bias[:, :, None]], 2)
    low, high = _intervals(drawn, pairs)
    usual = int(np.argmin(np.abs(cutoff - USUAL)))
    headlines = []
    for way, name in ((usual, f"cut at {cutoff[usual]:g}π"), (-1, PHASE)):
        numbers = Estimate(bias[way, 0], low[way, -1], high[way, -1])
        headlines.append(Headline("shape_bias", name, numbers.each(float), bias[way].copy()))
    crossing = crossover(cutoff, sums[:-1, :, 0], sums[:-1, :, 1])
    if cutoff[0] < crossing[0] < cutoff[-1]:
        headlines.append(Headline.of("crossover", "in units of π", crossing))
    ends = {"value": drawn[:, 0], "low": low, "high": high}
    return {"n": n, "pairs": pairs, **ends, "headlines": tuple(headlines)}


def _intervals(drawn: np.ndarray, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the shares (ways, 1 + replicates, quantities) of `pairs` pairs; the bias is over those that are decided."""
    error = standard_error(drawn[:, 1:].swapaxes(0, 1))
    low, high = score_interval(drawn[:, 0, :-1], error[:, :-1], pairs)
    decided = np.maximum(pairs * drawn[:, 0, :2].sum(1), 1.0)
    bias_low, bias_high = score_interval(drawn[:, 0, -1], error[:, -1], decided)
    return np.column_stack([low, bias_low]), np.column_stack([high, bias_high])
