"""From what was measured to what to do: one function per rule.

A rule looks at the results of exams, and says which operation it would do, where, and whether the numbers call for it.
They do if the whole 95 % interval lies beyond the rule's threshold, so that few images prescribe nothing.
"""

from typing import cast

import numpy as np

from vitscope.findings.attention import AttentionResult
from vitscope.findings.fourier import FourierResult
from vitscope.findings.hessian import HessianResult
from vitscope.findings.prediction import QUANTITIES, PredictionResult
from vitscope.findings.variance import VarianceResult
from vitscope.prescribe.examined_model import ExaminedModel
from vitscope.prescribe.placement import following_mlps, msa_blocks, stage_ends
from vitscope.prescribe.prescription import RULES as RULES
from vitscope.prescribe.prescription import Evidence, Finding, rule
from vitscope.results.unit_changes import changes_of, mean_over_units

# Share of its bound above which attention is taken for nearly uniform: those of the paper's ViT-S and ViT-B, which
# Context Broadcasting improves, reach 4.4 of 5.28 = 0.83.
UNIFORM = 0.8
# Units in the later half of a model are deep: that is where Context Broadcasting is put by default.
DEEP = 0.5
# Share of negative eigenvalues that counts as high. The paper gives no number for a ResNet, only "a few": one in ten.
HIGH_NEP = 0.1
# Calibration error that counts as poor: between 4.31 % without and 2.24 % with spatial smoothing in the slides' table.
POOR_ECE = 0.03
# Side of the neighbourhood with the fewest negative eigenvalues in the paper.
KERNEL = 5


@rule(
    claim="A2, D1, D3, D5",
    papers="Convolutions raise variance and high frequencies up to the end of a stage; attention there averages them, "
    "and AlterNet, which does so, beats the ResNet it is made from.",
    caution="The new blocks start from random weights: they have to be trained. On few images attention can hurt.",
    needs=("fourier", "variance"),
    aims=("variance.change", "fourier.change"),
    refines=("lesion",),
)
def alternate(examined: ExaminedModel) -> Finding:
    """MSA blocks in the place of convolutions at the end of the stages whose variance peaks there."""
    variance = cast(VarianceResult, examined.results["variance"])
    fourier = cast(FourierResult, examined.results["fourier"])
    if "conv" not in fourier.kinds:
        return Finding(False, "the model has no residual convolutions whose frequencies could be compared")
    ends = stage_ends(examined)
    growth = changes_of(fourier.summary(), "conv")
    if not ends or growth is None:
        return Finding(False, "the model has no stage of two or more blocks that ends in a convolution")
    excess = mean_over_units(*np.array([end.excess for end in ends]).T)
    peaks, rise = (
        "variance at stage ends above that of the rest of their stage, mean over stages, in %",
        "mean change of high frequencies across Convs",
    )
    evidence = [
        Evidence.above("variance", peaks, excess.estimate, variance.n, 0.0),
        Evidence.above("fourier", rise, growth.mean.estimate, fourier.n, 0.0),
    ]
    calls = all(e.calls for e in evidence)
    evidence += [e for end in ends for e in end.lesion]
    spared = [end for end in ends if (end.certain or not calls) and not end.needed]
    where = f"stages {', '.join(str(end.stage) for end in spared)}" if spared else "no stage"
    reason = (
        f"variance peaks at stage ends and Convs raise high frequencies: MSA at the end of {where}"
        if calls
        else "not both: variance that peaks at stage ends, and Convs that raise high frequencies"
    )
    arguments = msa_blocks(examined, [end.stage for end in spared])
    if not any(arguments["msa"]):
        return Finding(False, f"{reason}, where no block can be spared and replaced", tuple(evidence))
    return Finding(calls, reason, tuple(evidence), "alternate", arguments)


@rule(
    claim="A6, E1",
    papers="Deep attention of ViTs is nearly uniform, which is hard to learn for a softmax; Context Broadcasting gives "
    "it for free, lowers the entropy, and raises accuracy.",
    caution="Attention can also be uniform because its layer is not used; the lesion study tells.",
    needs=("attention",),
    aims=("attention.entropy",),
)
def broadcast_context(examined: ExaminedModel) -> Finding:
    """Context Broadcasting in the MLPs after deep attention that is nearly uniform.

    The kind with a learned scale starts as the model was, which suits weights that are trained already.
    """
    attention = cast(AttentionResult, examined.results["attention"])
    if not attention.units:
        return Finding(False, "the model has no attention over the points of a map")
    entropy = [numbers[attention.layers] for numbers in attention.of("entropy")]
    shares = [numbers / attention.bound for numbers in entropy]
    deep = [i for i, unit in enumerate(attention.units) if unit.depth >= DEEP]
    uniform = [i for i in deep if shares[1][i] >= UNIFORM]
    most = max(deep or range(len(attention.units)), key=lambda i: shares[0][i])
    shown = uniform or [most]
    evidence = tuple(
        Evidence.above(
            "attention",
            f"entropy of {attention.units[i].name} over its bound",
            [numbers[i] for numbers in shares],
            attention.n,
            UNIFORM,
        )
        for i in shown
    )
    reason = (
        f"{len(uniform)} of {len(deep)} deep layers attend nearly uniformly"
        if uniform
        else f"no deep layer attends nearly uniformly; {attention.units[most].name} comes closest"
    )
    names = [attention.units[i].name for i in (uniform or deep)]
    where, layers = following_mlps(examined, names)
    arguments = {"kind": "cb_s", "where": where, "at": "end", "layers": layers}
    return Finding(bool(uniform), reason, evidence, "broadcast_context", arguments)


def _nep(examined: ExaminedModel) -> Evidence:
    found = cast(HessianResult, examined.results["hessian"])
    numbers = found.negative_share
    unsure = f" ({found.unconverged} eigenvalues not converged)" if found.unconverged else ""
    what = f"share of negative eigenvalues (NEP){unsure}"
    return Evidence.above("hessian", what, numbers, found.n, HIGH_NEP)


def _convexity(evidence: Evidence) -> str:
    return "the loss is far from convex" if evidence.calls else "the loss is not clearly far from convex"


@rule(
    claim="A5, C5",
    papers="A head that averages tokens suppresses negative eigenvalues of the loss, and gains 2.7 points of accuracy "
    "on CIFAR-100.",
    caution="Strong augmentation and few data raise NEP as well; those remain.",
    needs=("hessian",),
    aims=("hessian.nep",),
)
def pool_tokens(examined: ExaminedModel) -> Finding:
    """A head that reads the mean of the patch tokens, where it reads a class token."""
    evidence = _nep(examined)
    if not any(unit.prefix_tokens for unit in examined.body.parts):
        return Finding(False, "the model has no class token that averaging could replace", (evidence,))
    return Finding(evidence.calls, _convexity(evidence), (evidence,), "pool_tokens")


@rule(
    claim="A4, C7",
    papers="ViT whose attention sees 5x5 points has the fewest negative eigenvalues and beats global attention on "
    "training and test images of CIFAR-100.",
    caution="It was found on 8x8 maps; the kernel that is best depends on the size of the map.",
    needs=("hessian",),
    aims=("hessian.nep",),
    instead_of="pool_tokens",
)
def localize(examined: ExaminedModel) -> Finding:
    """Attention that sees a neighbourhood, where it sees the whole map."""
    evidence = _nep(examined)
    attending = [unit.attention for unit in examined.body.parts.of_kind("msa") if unit.attention]
    if not any(attention.pattern == "global" for attention in attending):
        return Finding(False, "the model has no attention over the whole map", (evidence,))
    return Finding(evidence.calls, _convexity(evidence), (evidence,), "localize", {"kernel": KERNEL})


def _calibration(examined: ExaminedModel) -> tuple[Evidence, Evidence]:
    """The calibration error, and confidence minus accuracy, whose sign says in which direction."""
    found = cast(PredictionResult, examined.results["prediction"])
    error, signed = (
        [ends[QUANTITIES.index(quantity)] for ends in (found.value, found.low, found.high)]
        for quantity in ("ece", "signed_ece")
    )
    return (
        Evidence.above("prediction", "calibration error (ECE)", error, found.n, POOR_ECE),
        Evidence.above("prediction", "confidence minus accuracy", signed, found.n, 0.0),
    )


@rule(
    claim="F1",
    papers="Strong augmentation makes predictions under-confident, and training without it over-confident.",
    caution="It leaves accuracy as it is. Fit it on images that were not trained on.",
    needs=("prediction",),
    aims=("prediction.ece", "prediction.signed_ece"),
)
def temperature(examined: ExaminedModel) -> Finding:
    """A number that divides the logits; nothing in the model changes."""
    error, signed = _calibration(examined)
    if not error.calls:
        return Finding(False, "the calibration error is not clearly poor", (error, signed))
    sides = {(True, False): "over-confident", (False, True): "under-confident"}
    side = sides.get((signed.low > 0, signed.high < 0), "wrong in both directions")
    scaling = cast(PredictionResult, examined.results["prediction"]).scaling
    fitted = f"divide logits by {scaling.temperature:.3g}" if scaling else f"fit it: {examined.fit_command()}"
    return Finding(True, f"predictions are {side}: {fitted}", (error, signed))


@rule(
    claim="A10, F9",
    papers="Spatial smoothing before subsampling averages neighbouring features like an ensemble: better calibrated, "
    "more accurate and more robust (ECE 4.31 to 2.24 % on CamVid).",
    caution="It lowers confidence: it is for over-confident models. Its Prob cuts features off, so train afterwards.",
    needs=("prediction",),
    aims=("prediction.ece", "prediction.signed_ece"),
    instead_of="temperature",
)
def smooth(examined: ExaminedModel) -> Finding:
    """Spatial smoothing before subsampling, or before the head of a model that does not subsample."""
    error, signed = _calibration(examined)
    calls = error.calls and signed.calls
    reason = (
        "predictions are over-confident"
        if calls
        else "predictions are not clearly, and poorly, over-confident"
    )
    halved = any(unit.downsamples and unit.kind not in ("stem", "head") for unit in examined.body.parts)
    where = "subsampling" if halved else "stage_ends"
    return Finding(calls, reason, (error, signed), "smooth", {"where": where})
