"""From a diagnosis to a treatment: which operations the numbers call for, why, and what they would cost."""

from vitscope.core.arguments.calling import make_callable
from vitscope.prescribe.apply import Treatment, apply
from vitscope.prescribe.decide import prescribe
from vitscope.prescribe.prescription import Evidence, Prescription, Prescriptions
from vitscope.prescribe.rules import RULES

__all__ = ["RULES", "Evidence", "Prescription", "Prescriptions", "Treatment", "apply", "prescribe"]

make_callable(__name__, prescribe)
