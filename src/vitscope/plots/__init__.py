"""Figures: one function per exam, drawing a result on given or new axes; nothing is computed again."""

from vitscope.plots.adversarial import plot_adversarial, plot_adversarials
from vitscope.plots.attention import plot_attention, plot_attention_distance, plot_attention_heads
from vitscope.plots.cb_scale import plot_cb_scale, plot_cb_scale_ratio
from vitscope.plots.cka import plot_cka
from vitscope.plots.corruption import (
    plot_corruption,
    plot_corruption_types,
    plot_corruptions,
    plot_corruptions_types,
)
from vitscope.plots.covariance import plot_covariance, plot_covariance_maps
from vitscope.plots.effective_rank import plot_effective_rank, plot_token_cosine, plot_token_cosine_change
from vitscope.drawing.figures import PLOTS, Plot, save_figures
from vitscope.plots.fourier import (
    plot_fourier,
    plot_fourier_change,
    plot_fourier_radial,
    plot_fourier_spectrum,
)
from vitscope.plots.frequency_noise import (
    plot_frequency_noise,
    plot_frequency_noise_accuracy,
    plot_frequency_noises,
)
from vitscope.plots.hessian import (
    plot_hessian,
    plot_hessian_density,
    plot_hessian_slope,
    plot_hessian_spectra,
    plot_hessian_training,
)
from vitscope.plots.landscape import (
    plot_landscape,
    plot_landscape_line,
    plot_landscape_surface,
    plot_landscape_surfaces,
)
from vitscope.plots.landscape_interactive import interactive_landscape
from vitscope.plots.lesion import plot_lesion, plot_lesion_groups
from vitscope.plots.low_pass import plot_low_pass, plot_low_pass_rate
from vitscope.plots.maps import plot_maps
from vitscope.plots.monitors import plot_monitors
from vitscope.plots.occlusion import plot_occlusion, plot_occlusions
from vitscope.plots.passes import (
    plot_passes,
    plot_passes_accuracy,
    plot_passes_ece,
    plot_passes_spread,
    plot_passes_throughput,
)
from vitscope.plots.perturbations import plot_blur, plot_noise, plot_perturbations
from vitscope.plots.prediction import plot_prediction, plot_prediction_classes, plot_prediction_confidence
from vitscope.plots.shape_bias import plot_shape_bias, plot_shape_bias_phase, plot_shape_biases
from vitscope.plots.softmax_gradient import plot_softmax_gradient
from vitscope.plots.temporal import plot_temporal, plot_temporal_throughput, plot_temporal_trace
from vitscope.plots.token_norms import plot_attention_sinks, plot_outlier_places, plot_token_norms
from vitscope.plots.training import plot_training
from vitscope.plots.trajectory import plot_trajectories, plot_trajectory
from vitscope.plots.uncertainty import plot_uncertainty, plot_uncertainty_model, plot_uncertainty_share
from vitscope.plots.variance import plot_variance, plot_variance_change

adversarial = plot_adversarial
attention = plot_attention
blur = plot_blur
cb_scale = plot_cb_scale
cka = plot_cka
corruption = plot_corruption
covariance = plot_covariance
effective_rank = plot_effective_rank
fourier = plot_fourier
frequency_noise = plot_frequency_noise
hessian = plot_hessian
hessian_density = plot_hessian_density
hessian_training = plot_hessian_training
landscape = plot_landscape
landscape_line = plot_landscape_line
lesion = plot_lesion
low_pass = plot_low_pass
maps = plot_maps
monitors = plot_monitors
noise = plot_noise
occlusion = plot_occlusion
passes = plot_passes
prediction = plot_prediction
shape_bias = plot_shape_bias
softmax_gradient = plot_softmax_gradient
temporal = plot_temporal
token_norms = plot_token_norms
training = plot_training
trajectory = plot_trajectory
uncertainty = plot_uncertainty
variance = plot_variance

__all__ = [
    "PLOTS",
    "Plot",
    "adversarial",
    "attention",
    "blur",
    "cb_scale",
    "cka",
    "corruption",
    "covariance",
    "effective_rank",
    "fourier",
    "frequency_noise",
    "hessian",
    "hessian_density",
    "hessian_training",
    "interactive_landscape",
    "landscape",
    "landscape_line",
    "lesion",
    "low_pass",
    "maps",
    "monitors",
    "noise",
    "occlusion",
    "passes",
    "plot_adversarial",
    "plot_adversarials",
    "plot_attention",
    "plot_attention_distance",
    "plot_attention_heads",
    "plot_attention_sinks",
    "plot_blur",
    "plot_cb_scale",
    "plot_cb_scale_ratio",
    "plot_cka",
    "plot_corruption",
    "plot_corruption_types",
    "plot_corruptions",
    "plot_corruptions_types",
    "plot_covariance",
    "plot_covariance_maps",
    "plot_effective_rank",
    "plot_fourier",
    "plot_fourier_change",
    "plot_fourier_radial",
    "plot_fourier_spectrum",
    "plot_frequency_noise",
    "plot_frequency_noise_accuracy",
    "plot_frequency_noises",
    "plot_hessian",
    "plot_hessian_density",
    "plot_hessian_slope",
    "plot_hessian_spectra",
    "plot_hessian_training",
    "plot_landscape",
    "plot_landscape_line",
    "plot_landscape_surface",
    "plot_landscape_surfaces",
    "plot_lesion",
    "plot_lesion_groups",
    "plot_low_pass",
    "plot_low_pass_rate",
    "plot_maps",
    "plot_monitors",
    "plot_noise",
    "plot_occlusion",
    "plot_occlusions",
    "plot_outlier_places",
    "plot_passes",
    "plot_passes_accuracy",
    "plot_passes_ece",
    "plot_passes_spread",
    "plot_passes_throughput",
    "plot_perturbations",
    "plot_prediction",
    "plot_prediction_classes",
    "plot_prediction_confidence",
    "plot_shape_bias",
    "plot_shape_bias_phase",
    "plot_shape_biases",
    "plot_softmax_gradient",
    "plot_temporal",
    "plot_temporal_throughput",
    "plot_temporal_trace",
    "plot_token_cosine",
    "plot_token_cosine_change",
    "plot_token_norms",
    "plot_training",
    "plot_trajectories",
    "plot_trajectory",
    "plot_uncertainty",
    "plot_uncertainty_model",
    "plot_uncertainty_share",
    "plot_variance",
    "plot_variance_change",
    "prediction",
    "save_figures",
    "shape_bias",
    "softmax_gradient",
    "temporal",
    "token_norms",
    "training",
    "trajectory",
    "uncertainty",
    "variance",
]
