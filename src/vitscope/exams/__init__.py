"""Exams: one measurement of a model each."""

from vitscope.exams.base import EXAMS, Accumulator, Batch, Procedure, Subject, find_exams, procedure
from vitscope.exams.diagnose import diagnose
from vitscope.exams.one_pass import examine

# Importing an exam registers it; the order here is the order in tables and pages.
# isort: off
from vitscope.exams.prediction import prediction
from vitscope.exams.fourier import fourier
from vitscope.exams.variance import variance
# isort: on

__all__ = [
    "EXAMS",
    "Accumulator",
    "Batch",
    "Procedure",
    "Subject",
    "diagnose",
    "examine",
    "find_exams",
    "fourier",
    "prediction",
    "procedure",
    "variance",
]
