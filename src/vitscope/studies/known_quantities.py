"""Quantities of a study before its first job: a name that no result can hold is refused, with the nearest ones.

What stands in brackets is not looked at: units and conditions depend on the model and on the exam's options.
"""

from vitscope.core.errors import BadArgument, did_you_mean
from vitscope.findings import result_types
from vitscope.studies import paper_statistics, task_statistics  # noqa: F401 declare quantities
from vitscope.studies.design import TRAINING
from vitscope.studies.quantities import STATISTICS, Quantity
from vitscope.studies.study import Study
from vitscope.tasks.find import TASKS
from vitscope.training.log import COLUMNS

_FACTS = ("parameters", "images")  # that a study keeps of a training beside its metrics


def check_quantities(study: Study) -> None:
    """Refuse a comparison of a number that is known not to exist."""
    exams = {look.label: look.exam for look in study.looks}
    for one in study.comparisons:
        for text in one.quantities:
            asked = Quantity.read(text)
            known = of_training() if asked.label == TRAINING else of_exam(exams[asked.label])
            if known and asked.name not in known:
                raise BadArgument(
                    f"comparison {one.name}: no quantity '{asked}'; {did_you_mean(asked.name, known)}"
                )


def of_training() -> tuple[str, ...]:
    """What a training records of itself, whatever its task."""
    return (*COLUMNS, *_FACTS, *dict.fromkeys(name for task in TASKS.values() for name in task.columns))


def of_exam(exam: str) -> tuple[str, ...]:
    """What an exam measures, and the statistics of it; empty if its names depend on the model."""
    measured = result_types()[exam].measures
    named = (name.partition(".")[2] for name in STATISTICS if name.startswith(f"{exam}."))
    return (*measured, *named) if measured else ()
