"""Claims about the Hessian max eigenvalue spectra of two models: C5.

A vision transformer has more negative eigenvalues than a CNN, and smaller positive ones. AlterNet has fewer large
eigenvalues than the CNN that it was made from: its positive ones are smaller on average.

Both spectra have to be of the same batches, drawn and augmented alike. Then replicate r of one and of the other drew
the same batches, and their difference is a replicate of the paired difference.
"""

from typing import Literal

from vitscope.claims.verdict import Judgement, Verdict
from vitscope.errors import BadResult
from vitscope.exams.hessian import HessianResult
from vitscope.exams.spectrum_numbers import Quantity, difference

ALIKE = ("data", "images_digest", "seed", "n", "batch_size", "weight_decay", "convention", "augmentation")
LEAST_BATCHES = 8  # fewer do not tell how far the spectrum of one batch lies from that of another
Expected = Literal["higher", "lower"]


def transformer_verdicts(transformer: HessianResult, cnn: HessianResult) -> list[Verdict]:
    """What C5 says of a vision transformer beside a CNN."""
    return [
        _verdict(transformer, cnn, "nep", "higher", "more negative eigenvalues than a CNN"),
        _verdict(transformer, cnn, "ape", "lower", "smaller positive eigenvalues than a CNN"),
    ]


def alternet_verdicts(alternet: HessianResult, cnn: HessianResult) -> list[Verdict]:
    """What C5 says of an AlterNet beside the CNN that it was made from."""
    return [_verdict(alternet, cnn, "ape", "lower", "fewer large eigenvalues than its CNN")]


def _verdict(
    model: HessianResult, other: HessianResult, quantity: Quantity, expected: Expected, statement: str
) -> Verdict:
    if unlike := [name for name in ALIKE if getattr(model, name) != getattr(other, name)]:
        name = unlike[0]
        raise BadResult(
            f"the spectra of {model.model} and {other.model} differ in {name} ({getattr(model, name)}, "
            f"{getattr(other, name)}); examine both with the same"
        )
    value, low, high = difference(model.eigenvalues, other.eigenvalues, quantity, model.seed)
    ours, theirs = (getattr(result, quantity) for result in (model, other))
    found = (
        f"{quantity.upper()} {ours:.3g}, {other.model} {theirs:.3g}: {value:+.3g} [{low:+.3g}, {high:+.3g}]"
    )
    batches = len(model.eigenvalues)
    if batches < LEAST_BATCHES:
        return Verdict("C5", statement, model.model, f"{found}, of {batches} batches", "inconclusive")
    return Verdict("C5", statement, model.model, found, _judge(low, high, expected))


def _judge(low: float, high: float, expected: Expected) -> Judgement:
    if not (low > 0 or high < 0):  # holds zero, or is not known
        return "inconclusive"
    return "holds" if (low > 0) == (expected == "higher") else "does not hold"
