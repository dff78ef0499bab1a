"""One typed layer for everything a user can say: which values are allowed, how they are read, how they are refused.

from vitscope.core.arguments import Count, checked

@checked
def examine(model: nn.Module, limit: Count | None = None): ...
"""

from vitscope.core.arguments.calling import check_fields, checked, names_checked
from vitscope.core.arguments.checking import check
from vitscope.core.arguments.files import files_in_words
from vitscope.core.arguments.reading import from_yaml, read, read_list
from vitscope.core.arguments.vocabulary import (
    Address,
    BatchSize,
    Classes,
    Count,
    CountFromZero,
    Device,
    Epochs,
    FieldsOf,
    Fraction,
    LearningRate,
    Minutes,
    NotEmpty,
    NotNegative,
    Number,
    Port,
    Positive,
    Probability,
    Range,
    Refine,
    RunFolder,
    Seed,
    Share,
    Side,
    Workers,
)
from vitscope.core.arguments.words import describe

__all__ = [
    "Address",
    "BatchSize",
    "Classes",
    "Count",
    "CountFromZero",
    "Device",
    "Epochs",
    "FieldsOf",
    "Fraction",
    "LearningRate",
    "Minutes",
    "NotEmpty",
    "NotNegative",
    "Number",
    "Port",
    "Positive",
    "Probability",
    "Range",
    "Refine",
    "RunFolder",
    "Seed",
    "Share",
    "Side",
    "Workers",
    "check",
    "check_fields",
    "checked",
    "describe",
    "files_in_words",
    "from_yaml",
    "names_checked",
    "read",
    "read_list",
]
