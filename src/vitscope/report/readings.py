"""What an exam shows on one model, in two sentences made from its numbers.

A reading is a function from a result to text, registered by the name of the exam. An exam without one gets its first
numbers.
"""

from vitscope.report.vital_signs import headline
from vitscope.results import Result
from vitscope.results.wording import READINGS


def reading(result: Result) -> str:
    """Two sentences about a result that has rows."""
    own = READINGS.get(result.exam)
    text = own(result) if own else ""
    if text:
        return text
    first = headline(result)
    return f"{first[:1].upper()}{first[1:]}." if first else ""
