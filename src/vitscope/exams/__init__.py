"""Exams: one measurement of a model each."""

from vitscope.engine.diagnose import diagnose
from vitscope.engine.exam import EXAMS, Accumulator, Batch, Procedure, Subject, find_exams, procedure
from vitscope.engine.one_pass import examine

# Importing an exam registers it; the order here is the order in tables and pages.
# isort: off
from vitscope.exams.prediction.prediction import prediction
from vitscope.exams.features.fourier import fourier
from vitscope.exams.features.variance import variance
from vitscope.exams.features.effective_rank import effective_rank
from vitscope.exams.features.cka import cka
from vitscope.exams.attention.attention import attention
from vitscope.exams.attention.softmax_gradient import softmax_gradient
from vitscope.exams.attention.low_pass import low_pass
from vitscope.exams.attention.token_norms import token_norms
from vitscope.exams.attention.maps import maps
from vitscope.exams.attention.cb_scale import cb_scale
from vitscope.exams.features.lesion import lesion
from vitscope.exams.features.uncertainty import uncertainty
from vitscope.exams.features.covariance import covariance
from vitscope.exams.loss.hessian import hessian
from vitscope.exams.loss.hessian_density import hessian_density
from vitscope.exams.loss.hessian_training import hessian_training, log_log_slope
from vitscope.exams.loss.landscape import landscape
from vitscope.exams.loss.landscape_line import landscape_line
from vitscope.exams.loss.trajectory import trajectory
from vitscope.exams.robustness.corruption import corruption
from vitscope.exams.robustness.perturbations import blur, noise
from vitscope.exams.robustness.frequency_noise import frequency_noise
from vitscope.exams.robustness.occlusion import occlusion
from vitscope.exams.robustness.adversarial import adversarial
from vitscope.exams.robustness.shape_bias import shape_bias
from vitscope.exams.prediction.passes import passes
from vitscope.exams.streams.temporal import temporal
# isort: on

__all__ = [
    "EXAMS",
    "Accumulator",
    "Batch",
    "Procedure",
    "Subject",
    "adversarial",
    "attention",
    "blur",
    "cb_scale",
    "cka",
    "corruption",
    "covariance",
    "diagnose",
    "effective_rank",
    "examine",
    "find_exams",
    "fourier",
    "frequency_noise",
    "hessian",
    "hessian_density",
    "hessian_training",
    "landscape",
    "landscape_line",
    "lesion",
    "log_log_slope",
    "low_pass",
    "maps",
    "noise",
    "occlusion",
    "passes",
    "prediction",
    "procedure",
    "shape_bias",
    "softmax_gradient",
    "temporal",
    "token_norms",
    "trajectory",
    "uncertainty",
    "variance",
]
