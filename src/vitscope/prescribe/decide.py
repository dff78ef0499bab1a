"""Every rule on the model of a run, with the cost of its operation measured on a copy."""

import copy
import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from vitscope.core import distributed
from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError
from vitscope.core.interface import Interface
from vitscope.engine.exam import EXAMS
from vitscope.prescribe.examined_model import ExaminedModel, find_examined_model, open_run
from vitscope.prescribe.prescription import Prescription, Prescriptions, Rule
from vitscope.prescribe.rules import RULES
from vitscope.results import atomic_write
from vitscope.results.codec import encode
from vitscope.results.plain_files import refuse_outside_links
from vitscope.results.provenance import provenance
from vitscope.surgery import OPERATIONS, Before, Comparison, NoEffectWarning, record

SCHEMA = 1
FILE = "prescription.json"


@checked
def prescribe(
    run: str | os.PathLike[str],
    model: nn.Module | str | None = None,
    *,
    output: str | int | None = None,
    mean: Iterable[float] | float | None = None,
    std: Iterable[float] | float | None = None,
    trust_code: bool = False,
) -> Prescriptions:
    """What every rule says about the model of a run; also written into the run as `prescription.json`.

    Args:
        run: A folder that `diagnose` wrote to.
        model: The model that was examined, or what `create_model` takes; default: where the run leads to.
        output: Which of its outputs holds the class scores; default: as when it was examined.
        mean: What was subtracted from pixels from 0 to 1 in its images; default: the same.
        std: What they were divided by; default: the same.
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).

    Returns:
        A prescription per rule, those included that the diagnosis does not call for, with the reason.

    Raises:
        VitscopeError: The run holds no exam, or its model is not found, or has other weights by now.
    """
    said = Interface().merged(output, mean, std)
    return decide(find_examined_model(open_run(run), model, said, trust_code))


def decide(examined: ExaminedModel) -> Prescriptions:
    """Ask every rule, and write down what they say."""
    path = examined.run.path
    found = Prescriptions(
        examined.name, str(path), tuple(_decided(rule, examined) for rule in RULES.values())
    )
    if distributed.is_main():
        refuse_outside_links(path)
        content = {"schema": SCHEMA, "provenance": provenance(), **encode(found)}
        atomic_write(path / FILE, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return found


def operate(model: nn.Module, prescription: Prescription) -> nn.Module:
    """Do what is prescribed, in place.

    Raises:
        VitscopeError: It cannot be done on this model, or changes nothing in it; the message says why.
    """
    assert prescription.operation is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoEffectWarning)
        try:
            return OPERATIONS[prescription.operation](model, **prescription.arguments)
        except NoEffectWarning as error:
            raise VitscopeError(str(error)) from error


def _decided(rule: Rule, examined: ExaminedModel) -> Prescription:
    blank = Prescription(
        rule.name, rule.claim, rule.papers, "unknown", "", rule.caution, instead_of=rule.instead_of
    )
    lacking = tuple(exam for exam in rule.needs if exam not in examined.results)
    refining = tuple(exam for exam in rule.refines if exam not in examined.results)
    if lacking:
        wanted = lacking + refining
        if examined.lacks_labels and any(EXAMS[exam].needs_labels for exam in lacking):
            reason = f"it needs {' and '.join(lacking)}, and that labels, which {examined.lacks_labels} lacks"
            return replace(blank, reason=reason, missing=lacking)
        return replace(blank, reason=f"not examined; make it: {examined.command(wanted)}", missing=wanted)
    try:
        finding = rule.decide(examined)
    except VitscopeError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        rests_on = [exam for exam in (*rule.needs, *rule.refines) if exam in examined.results]
        raise examined.run.damage(rests_on, error) from error
    prescription = replace(
        blank,
        state="prescribed" if finding.calls else "not needed",
        reason=finding.reason,
        operation=finding.operation,
        arguments=finding.arguments,
        evidence=finding.evidence,
        missing=refining,
    )
    operation = prescription.operation
    if operation is None:
        return prescription
    if any(entry["operation"] == operation for entry in record(examined.model)):
        return replace(prescription, state="not needed", reason=f"{operation} was done to this model already")
    try:
        return replace(prescription, cost=_cost(examined.model, prescription))
    except VitscopeError as error:
        return replace(prescription, state="impossible", reason=f"{prescription.reason}, but {error}")


def _cost(model: nn.Module, prescription: Prescription) -> Comparison:
    """What really operating on a copy changes."""
    before = Before(model)
    state = torch.get_rng_state()  # new weights are drawn
    try:
        return before.compare(operate(copy.deepcopy(model), prescription))
    finally:
        torch.set_rng_state(state)
