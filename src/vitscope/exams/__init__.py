"""Exams: one measurement of a model each."""

from vitscope.exams.base import EXAMS, Accumulator, Batch, Procedure, Subject, find_exams, procedure
from vitscope.exams.diagnose import diagnose
from vitscope.exams.one_pass import examine

# Importing an exam registers it; the order here is the order in tables and pages.
# isort: off
from vitscope.exams.prediction import prediction
from vitscope.exams.fourier import fourier
from vitscope.exams.variance import variance
from vitscope.exams.effective_rank import effective_rank
from vitscope.exams.cka import cka
from vitscope.exams.attention import attention
from vitscope.exams.softmax_gradient import softmax_gradient
from vitscope.exams.low_pass import low_pass
from vitscope.exams.token_norms import token_norms
from vitscope.exams.maps import maps
from vitscope.exams.cb_scale import cb_scale
from vitscope.exams.lesion import lesion
from vitscope.exams.uncertainty import uncertainty
from vitscope.exams.covariance import covariance
from vitscope.exams.hessian import hessian
from vitscope.exams.hessian_density import hessian_density
from vitscope.exams.hessian_series import hessian_training, log_log_slope
from vitscope.exams.landscape import landscape
from vitscope.exams.landscape_line import landscape_line
from vitscope.exams.trajectory import trajectory
from vitscope.exams.corruption import corruption
from vitscope.exams.perturbations import blur, noise
from vitscope.exams.frequency_noise import frequency_noise
from vitscope.exams.occlusion import occlusion
from vitscope.exams.adversarial import adversarial
from vitscope.exams.shape_bias import shape_bias
from vitscope.exams.passes import passes
from vitscope.exams.temporal import temporal
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
