"""Figures: one function per exam, drawing a result on given or new axes; nothing is computed again."""

from vitscope.plots.attention import plot_attention, plot_attention_distance, plot_attention_heads
from vitscope.plots.cb_scale import plot_cb_scale, plot_cb_scale_ratio
from vitscope.plots.cka import plot_cka
from vitscope.plots.covariance import plot_covariance, plot_covariance_maps
from vitscope.plots.figures import PLOTS, Plot, save_figures
from vitscope.plots.fourier import (
    plot_fourier,
    plot_fourier_change,
    plot_fourier_radial,
    plot_fourier_spectrum,
)
from vitscope.plots.hessian import (
    plot_hessian,
    plot_hessian_density,
    plot_hessian_slope,
    plot_hessian_spectra,
    plot_hessian_training,
)
from vitscope.plots.lesion import plot_lesion, plot_lesion_groups
from vitscope.plots.low_pass import plot_low_pass, plot_low_pass_rate
from vitscope.plots.maps import plot_maps
from vitscope.plots.monitors import plot_monitors
from vitscope.plots.prediction import plot_prediction
from vitscope.plots.softmax_gradient import plot_softmax_gradient
from vitscope.plots.training import plot_training
from vitscope.plots.uncertainty import plot_uncertainty, plot_uncertainty_model, plot_uncertainty_share
from vitscope.plots.variance import plot_variance, plot_variance_change

attention = plot_attention
cb_scale = plot_cb_scale
cka = plot_cka
covariance = plot_covariance
fourier = plot_fourier
hessian = plot_hessian
hessian_density = plot_hessian_density
hessian_training = plot_hessian_training
lesion = plot_lesion
low_pass = plot_low_pass
maps = plot_maps
monitors = plot_monitors
prediction = plot_prediction
softmax_gradient = plot_softmax_gradient
training = plot_training
uncertainty = plot_uncertainty
variance = plot_variance

__all__ = [
    "PLOTS",
    "Plot",
    "attention",
    "cb_scale",
    "cka",
    "covariance",
    "fourier",
    "hessian",
    "hessian_density",
    "hessian_training",
    "lesion",
    "low_pass",
    "maps",
    "monitors",
    "plot_attention",
    "plot_attention_distance",
    "plot_attention_heads",
    "plot_cb_scale",
    "plot_cb_scale_ratio",
    "plot_cka",
    "plot_covariance",
    "plot_covariance_maps",
    "plot_fourier",
    "plot_fourier_change",
    "plot_fourier_radial",
    "plot_fourier_spectrum",
    "plot_hessian",
    "plot_hessian_density",
    "plot_hessian_slope",
    "plot_hessian_spectra",
    "plot_hessian_training",
    "plot_lesion",
    "plot_lesion_groups",
    "plot_low_pass",
    "plot_low_pass_rate",
    "plot_maps",
    "plot_monitors",
    "plot_prediction",
    "plot_softmax_gradient",
    "plot_training",
    "plot_uncertainty",
    "plot_uncertainty_model",
    "plot_uncertainty_share",
    "plot_variance",
    "plot_variance_change",
    "prediction",
    "save_figures",
    "softmax_gradient",
    "training",
    "uncertainty",
    "variance",
]
