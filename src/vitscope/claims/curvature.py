"""Claims about the Hessian max eigenvalue spectra of two models: C5.

A vision transformer has more negative eigenvalues than a CNN, and smaller positive ones. AlterNet has fewer large
eigenvalues than the CNN that it was made from: its positive ones are smaller on average.

Both spectra have to be of the same batches, drawn and augmented alike. Then replicate r of one and of the other drew
the same batches, and their difference is a replicate of the paired difference. It is over batches: what another
training of the same two models would give is not known.
"""

from vitscope.claims.verdict import ONE_TRAINING, Rule, Verdict
from vitscope.core.errors import BadResult
from vitscope.findings.hessian import HessianResult
from vitscope.results.loss_numbers import Quantity, difference

ALIKE = ("data", "images_digest", "seed", "n", "batch_size", "weight_decay", "convention", "augmentation")
LEAST_BATCHES = 8  # fewer do not tell how far the spectrum of one batch lies from that of another
_NAMES = {"nep": "share of negative eigenvalues (NEP)", "ape": "mean of the positive eigenvalues (APE)"}


def transformer_verdicts(transformer: HessianResult, cnn: HessianResult) -> list[Verdict]:
    """What C5 says of a vision transformer beside a CNN."""
    return [
        _verdict(transformer, cnn, "nep", Rule("above"), "more negative eigenvalues than a CNN"),
        _verdict(transformer, cnn, "ape", Rule("below"), "smaller positive eigenvalues than a CNN"),
    ]


def alternet_verdicts(alternet: HessianResult, cnn: HessianResult) -> list[Verdict]:
    """What C5 says of an AlterNet beside the CNN that it was made from."""
    return [_verdict(alternet, cnn, "ape", Rule("below"), "fewer large eigenvalues than its CNN")]


def _verdict(
    model: HessianResult, other: HessianResult, quantity: Quantity, rule: Rule, statement: str
) -> Verdict:
    if unlike := [name for name in ALIKE if getattr(model, name) != getattr(other, name)]:
        name = unlike[0]
        raise BadResult(
            f"the spectra of {model.model} and {other.model} differ in {name} ({getattr(model, name)}, "
            f"{getattr(other, name)}); examine both with the same"
        )
    value, low, high = difference(model.eigenvalues, other.eigenvalues, quantity, model.seed)
    ours, theirs = (getattr(result, quantity) for result in (model, other))
    batches = len(model.eigenvalues)
    few = f"of {batches} batches, at least {LEAST_BATCHES} are needed for a verdict"
    return Verdict(
        claim="C5",
        statement=statement,
        model=model.model,
        statistic=f"difference in the {_NAMES[quantity]}",
        value=value,
        low=low,
        high=high,
        unit="",
        over=f"{batches} batches",
        rule=rule,
        evidence=f"{quantity.upper()} {ours:.3g}, {other.model} {theirs:.3g}",
        scope=ONE_TRAINING,
        lacking=few if batches < LEAST_BATCHES else "",
    )
