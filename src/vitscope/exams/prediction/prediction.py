"""How good the predictions are, and whether the model knows it.

Accuracy, top-5, negative log-likelihood, Brier score and calibration errors with intervals over images; accuracy,
precision and confidence of every class; and what dividing the logits by a number does. The formulas are in
`engine/scores.py`; all of it comes from sums over one pass.
"""

from types import MappingProxyType
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor

from vitscope.core import distributed
from vitscope.core.bootstrap import REPLICATES, mean_interval_of_few, poisson_weights, standard_error
from vitscope.core.errors import warn
from vitscope.core.statistics import Estimate, difference_interval, mean_interval, share_interval
from vitscope.engine.condition_scores import COLUMNS, score_columns
from vitscope.engine.conditions import replicates
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.scores import (
    CELLS,
    TEMPERATURES,
    Temperature,
    adaptive_gaps,
    adaptive_least_error,
    check_predictions,
    confidence_bins,
    confidence_cells,
    error_interval,
    find_scaling,
    in_fitting_half,
    least_error,
    lengthened,
    scores,
    with_bits,
)
from vitscope.engine.single_exam import single_exam
from vitscope.findings.prediction import QUANTITIES, SHADES, PredictionResult, Scaling
from vitscope.results.condition_rows import BINS, MEANS

GROWING = ("classes", "seen", "right")  # sums that have as many rows as were needed so far


class PredictionAccumulator(Accumulator):
    """Sums of the scores and of each bin's calibration gap, plain and in every bootstrap replicate."""

    result = PredictionResult
    needs_labels = True
    evaluation = True
    temperature: ClassVar[Temperature] = None
    OPTIONS = MappingProxyType({"temperature": Temperature})

    n: Tensor
    sums: Tensor  # (1 + replicates, COLUMNS): weight, scores, gap of each bin; the first row is plain
    cells: Tensor  # (2, cells, 1 + replicates): weight and gap of each cell of the adaptive error
    bins: Tensor  # (bins, 3): count, confidence, correct
    histogram: Tensor  # (shades, 2): right, wrong
    classes: Tensor  # (classes, 5): images, right ones, images taken for it, confidence and its square
    seen: Tensor  # (words,) bits
    right: Tensor
    fitting: Tensor  # see find_scaling
    reporting: Tensor
    reported_bins: Tensor
    n_fitted: Tensor

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        rows = 1 + REPLICATES
        self.add_sums(sums=(rows, COLUMNS), cells=(2, CELLS, rows), bins=(BINS, 3))
        self.add_sums(histogram=(SHADES, 2), classes=(0, 5))
        self.add_sum("seen", (0,), torch.int64)
        self.add_sum("right", (0,), torch.int64)
        self.add_counts("n")
        if self.temperature == "fit":
            tried = len(TEMPERATURES)
            self.add_sums(fitting=(rows, 1 + tried), reporting=(rows, 1 + tried * (3 + BINS)))
            self.add_sums(reported_bins=(tried, 2 * BINS))
            self.add_counts("n_fitted")

    def update(self, batch: Batch) -> None:
        """Take in the predictions of one batch of images."""
        logits, labels, indices = batch.logits.detach().cpu(), batch.labels.cpu(), batch.indices.cpu()
        check_predictions(logits, labels, indices)
        logits, labels = self.subject.readout(logits, labels, indices)
        if isinstance(self.temperature, float | int):
            logits = logits.double() / self.temperature
        weights = torch.from_numpy(poisson_weights(indices.numpy(), self.subject.seed))
        columns = score_columns(logits, labels)
        one, correct, confidence = columns[:, 0], columns[:, 1], columns[:, len(MEANS)]
        self.sums += weights.T @ columns
        cells = confidence_cells(confidence)
        self.cells[0].index_add_(0, cells, weights)
        self.cells[1].index_add_(0, cells, weights * (confidence - correct)[:, None])
        self.bins += confidence_bins(confidence).T @ torch.stack([one, confidence, correct], 1)
        self.histogram += confidence_bins(confidence, SHADES).T @ torch.stack([correct, one - correct], 1)
        self._add_to_classes(logits, labels, correct, confidence)
        self.seen = with_bits(self.seen, indices)
        self.right = with_bits(self.right, indices[correct.bool()])
        self.n += len(labels)
        if self.temperature == "fit":
            self._try_temperatures(logits, labels, in_fitting_half(indices, self.subject.seed), weights)

    def _add_to_classes(self, logits: Tensor, labels: Tensor, correct: Tensor, confidence: Tensor) -> None:
        self.classes = lengthened(self.classes, logits.shape[1])
        one, none = torch.ones_like(confidence), torch.zeros_like(confidence)
        of_label = torch.stack([one, correct, none, confidence, confidence.square()], 1)
        of_prediction = torch.stack([none, none, one, none, none], 1)
        self.classes.index_add_(0, labels, of_label)
        self.classes.index_add_(0, logits.argmax(1), of_prediction)

    def _try_temperatures(self, logits: Tensor, labels: Tensor, fits: Tensor, weights: Tensor) -> None:
        tried = [scores(logits.double() / t, labels) for t in TEMPERATURES]
        one = torch.ones(len(labels), 1, dtype=torch.float64)
        nll = torch.cat([one, *(s[:, 2:3] for s in tried)], 1)
        self.fitting += weights[fits].T @ nll[fits]
        bins = [confidence_bins(s[:, 4]) for s in tried]
        gaps = [own * (s[:, 4:] - s[:, :1]) for s, own in zip(tried, bins, strict=True)]
        columns = [torch.cat([s[:, 2:], gap], 1) for s, gap in zip(tried, gaps, strict=True)]
        self.reporting += weights[~fits].T @ torch.cat([one, *columns], 1)[~fits]
        filled = [torch.cat([own, own * s[:, :1]], 1)[~fits] for s, own in zip(tried, bins, strict=True)]
        self.reported_bins += torch.stack([own.sum(0) for own in filled])
        self.n_fitted += int(fits.sum())

    def merge_state(self, other: Self) -> None:
        """Take in another one's sums; one that has seen fewer classes, or lower places, has fewer rows."""
        for name in GROWING:
            length = max(len(getattr(one, name)) for one in (self, other))
            for one in (self, other):
                setattr(one, name, lengthened(getattr(one, name), length))
        super().merge_state(other)

    def finish(self) -> PredictionResult:
        """The result; before sums are taken, every process has as many classes and words as the others."""
        for name in GROWING:
            length = max(distributed.gather(len(getattr(self, name))))
            setattr(self, name, lengthened(getattr(self, name), length))
        result = cast(PredictionResult, super().finish())
        if result.scaling is not None and not result.scaling.converged:
            warn(f"temperature not converged: {result.scaling.temperature:g} is the end of what was tried")
        return result

    def compute(self) -> dict[str, Any]:
        """Every quantity with its interval, the reliability diagram, and the classes."""
        adaptive = adaptive_gaps(*self.cells.numpy())
        means = replicates(self.sums)
        signed = means[:, MEANS.index("confidence")] - means[:, MEANS.index("accuracy")]
        drawn = np.column_stack([means, signed, np.abs(adaptive).sum(1)])
        low, high = self._intervals(drawn, adaptive)
        count, confidence, right = self.bins.numpy().T
        with np.errstate(invalid="ignore", divide="ignore"):
            bin_confidence, bin_accuracy = confidence / count, right / count
        return {
            "n": int(self.n),
            "temperature": 1.0 if self.temperature in (None, "fit") else float(self.temperature),
            "value": drawn[0],
            "low": low,
            "high": high,
            "drawn": drawn[1:],
            "bin_count": count.astype(np.int64),
            "bin_confidence": bin_confidence,
            "bin_accuracy": Estimate(bin_accuracy, *share_interval(right, count)),
            "histogram": self.histogram.numpy().astype(np.int64),
            **self._class_fields(),
            "seen": self.seen.numpy().copy(),
            "right": self.right.numpy().copy(),
            "scaling": self._scaling(),
        }

    def _intervals(self, drawn: np.ndarray, adaptive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(quantities,) each, of (1 + replicates, quantities) and the gaps of the adaptive error."""
        n, (weight, gap), sums = int(self.n), self.cells[:, :, 0].numpy(), self.sums.numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps = sums[:, 1 + len(MEANS) :] / sums[:, :1]
        count, _, right = self.bins.numpy().T
        place = {quantity: i for i, quantity in enumerate(QUANTITIES)}
        low, high = mean_interval_of_few(drawn[1:], n)
        signed = drawn[:, place["signed_ece"]]
        special = {
            **{name: share_interval(n * drawn[0, place[name]], n) for name in ("accuracy", "top5")},
            "signed_ece": difference_interval(signed[0], standard_error(signed[1:]), n),
            "ece": error_interval(gaps[:, None], least_error(count, right, n)[None]),
            "adaptive_ece": error_interval(adaptive[:, None], adaptive_least_error(weight, gap)[None]),
        }
        for name, ends in special.items():
            low[place[name]], high[place[name]] = ends
        return low, high

    def _class_fields(self) -> dict[str, Any]:
        count, right, predicted, confidence, squares = self.classes.numpy().T
        known, outputs = self.subject.readout.classes, range(len(count))
        value, low, high = np.full((3, len(count), 3), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            value[:, 0], value[:, 1] = right / count, right / predicted
        low[:, 0], high[:, 0] = share_interval(right, count)
        low[:, 1], high[:, 1] = share_interval(right, predicted)
        for k in np.flatnonzero(count):
            value[k, 2], low[k, 2], high[k, 2] = mean_interval(
                confidence[k], squares[k], int(count[k])
            ).bounded()
        return {
            "class_names": tuple(known[k] if k < len(known) else str(k) for k in outputs),
            "class_count": count.astype(np.int64),
            "class_predicted": predicted.astype(np.int64),
            "by_class": Estimate(value, low, high),
        }

    def _scaling(self) -> Scaling | None:
        if self.temperature != "fit":
            return None
        fitted, n = int(self.n_fitted), int(self.n)
        return find_scaling(self.fitting, self.reporting, self.reported_bins, fitted, n - fitted)


prediction = single_exam(
    PredictionAccumulator,
    "`model`'s predictions on `data`",
    temperature="Divide the logits by this number; fit: leave them as they are, and add what dividing them by the best "
    "number does, fitted on one half of the images and reported on the other.",
)
