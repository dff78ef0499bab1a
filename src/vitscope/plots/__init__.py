"""Figures: one function per exam, drawing a result on given or new axes; nothing is computed again."""

from vitscope.plots.figures import PLOTS, Plot, save_figures
from vitscope.plots.fourier import plot_fourier, plot_fourier_change, plot_fourier_spectrum
from vitscope.plots.prediction import plot_prediction
from vitscope.plots.training import plot_training
from vitscope.plots.variance import plot_variance, plot_variance_change

fourier = plot_fourier
prediction = plot_prediction
training = plot_training
variance = plot_variance

__all__ = [
    "PLOTS",
    "Plot",
    "fourier",
    "plot_fourier",
    "plot_fourier_change",
    "plot_fourier_spectrum",
    "plot_prediction",
    "plot_training",
    "plot_variance",
    "plot_variance_change",
    "prediction",
    "save_figures",
    "training",
    "variance",
]
