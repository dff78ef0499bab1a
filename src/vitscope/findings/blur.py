"""What `blur` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

from vitscope.drawing import mpl
from vitscope.drawing.figures import figure
from vitscope.drawing.style import MODELS
from vitscope.findings.noise import PERTURBED, PerturbedRows, plot_perturbations
from vitscope.results import About, Result
from vitscope.results.condition_rows import conditions_in_words
from vitscope.results.numbers import reads


@dataclass(frozen=True, eq=False, kw_only=True)
class BlurResult(PerturbedRows, Result, exam="blur", after="noise", version=2):
    """Scores under slight blur."""

    about = About(
        title="Blur",
        shows="Accuracy on pictures blurred by Gaussians of 1 and 2 pixels.",
        papers="In the paper (segmentation of ADE20K, pictures of 512 pixels) Context Broadcasting is ahead by 1.0 and "
        "0.6 points of mIoU under blur of 1 and 2 pixels, and by 0.6 without it.",
        misleads="The blur is measured in pixels: 2 pixels of 32 are as much of the scene as 32 of 512.",
    )
    measures = PERTURBED


@figure(
    "blur",
    "Accuracy (of pixels: mIoU) on pictures blurred by a Gaussian, with its 95 % interval over images.",
)
def plot_blur(result: BlurResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Accuracy without blur and under each blur."""
    return plot_perturbations([result], ax, [colour])


reads("blur")(conditions_in_words)
