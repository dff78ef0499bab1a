"""Python's words in a message as they are typed on the command line.

batches=3, max_products (of hessian)     --hessian.batches 3, --hessian.max-products
hessian.batches is for hessian           --hessian.batches is for hessian
num_classes=10, split_batch=True         --num-classes 10, --split-batch
vs.surgery.mc_dropout(model)             --mc-dropout, or outside of operate: vitscope operate MODEL --mc-dropout
msa=(1, 1), kind='cb'                    msa=1,1 and kind=cb: words of an operation
(in Python vs.surgery.undo(model))       left out
skip_broken: true                        as it is: a line of a YAML file
net(num_classes=3), there are: batch_size as they are: a call, and names that stand in a file

Names of one plain word ("limit is ...", "data") are words of English, too: only `name=` and a message's first words
are taken for them.
"""

import dataclasses
import re
import sys
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from vitscope.cli.options import hints_of_options
from vitscope.cli.words import is_positional
from vitscope.core.errors import speaker

_BEFORE = r"(?<![\w./:'\"-])"
_VALUE = r"(?P<value>'[^']*'|\([\w., ]*\)|[\w*+-]+(?:\.\w+)*|)"
_IN_A_FILE = r": (?:true|false|\d)"  # behind the key of a YAML file
_OPERATION = re.compile(r"vs\.surgery\.(\w+)(?:\(model\))?")
_KEY = re.compile(_BEFORE + r"(\w+)=" + _VALUE)
_ADDRESS = re.compile(_BEFORE + r"(\w+)\.\w+")
_LITERAL = re.compile(r"(\b[\w.:]+\([^()]*\)|(?:there are|it takes): .*)")
_TWICE = re.compile(r"(--[^()]*?) \((--[^()]*)\)")


def as_typed(message: str, verb: str, options_type: Any, exam: str | None = None) -> str:
    """The message of an error of this verb; `exam`: the one that raised it, if one did."""
    if message.startswith("--config"):  # a file has Python's names
        return message
    message = _without_python(message)
    message = _OPERATION.sub(lambda match: _operation(match[1], verb), message)
    pieces = _LITERAL.split(message)
    for name, flag in _flags(options_type, exam).items():
        pieces[0] = re.sub(rf"^{name} is ", f"{flag} is ", pieces[0])
        pieces[::2] = [_with_flag(piece, name, flag) for piece in pieces[::2]]
    message = "".join(pieces)
    first = message.partition(" ")[0].rstrip(",").partition(".")
    if message.startswith("no option ") or first[2] in _options_of(first[0]):
        message = _ADDRESS.sub(_address, message)
    if exam is not None and f"--{exam}." in message and not hasattr(options_type, "options"):
        message += f" ({verb} takes no options of exams: give it to vitscope diagnose)"
    if verb == "operate":
        message = _KEY.sub(lambda match: f"{match[1]}={_word(match['value'])}", message)
    return _TWICE.sub(lambda match: match[1] if match[1].endswith(match[2]) else match[0], message)


def _with_flag(text: str, name: str, flag: str) -> str:
    text = re.sub(rf"{_BEFORE}{name}={_VALUE}", partial(_flag, flag), text)
    return re.sub(rf"{_BEFORE}{name}(?![\w./='\"-]| \(--|{_IN_A_FILE})", flag, text) if "_" in name else text


def notes_as_typed(verb: str, options_type: Any) -> AbstractContextManager[None]:
    """Inside, warnings are printed as one line each, in the words of this verb."""
    from vitscope.report.console import notes_on_stderr

    return notes_on_stderr(lambda message: as_typed(message, verb, options_type, speaker.get()))


def _flags(options_type: Any, exam: str | None) -> dict[str, str]:
    """How each name is typed: the options of the verb, and those of the exam."""
    hints = hints_of_options(options_type)
    fields = [field.name for field in dataclasses.fields(options_type)]
    found = {name: f"--{name.replace('_', '-')}" for name in fields if not is_positional(hints[name])}
    return found | {name: f"--{exam}.{name.replace('_', '-')}" for name in _options_of(exam)}


def _options_of(exam: str | None) -> dict[str, Any]:
    if exam not in _exams():
        return {}
    from vitscope.engine.choose_exams import options_of

    return options_of(_exams()[exam])


def _exams() -> dict[str, Any]:
    """Those that are loaded: what went wrong before that is not about them, and they take seconds to import."""
    module = sys.modules.get("vitscope.exams")
    return getattr(module, "EXAMS", {})


def _address(found: re.Match[str]) -> str:
    return "--" + found[0].replace("_", "-") if found[1] in _exams() else found[0]


def _flag(flag: str, found: re.Match[str]) -> str:
    value = found["value"]
    if value in ("True", "False"):
        off = f"{flag}=false" if "." in flag else flag.replace("--", "--no-", 1)
        return flag if value == "True" else off
    return f"{flag} {_word(value, ' ')}".rstrip()


def _word(value: str, between: str = ",") -> str:
    if value in ("True", "False"):
        return value.lower()
    if value.startswith("("):
        return between.join(part.strip() for part in value.strip("(), ").split(","))
    return value.strip("'")


def _operation(name: str, verb: str) -> str:
    flag = f"--{name.replace('_', '-')}"
    return flag if verb == "operate" else f"vitscope operate MODEL {flag}"


def _without_python(message: str) -> str:
    """Without what stands in parentheses for Python."""
    while (start := message.find(" (in Python")) >= 0:
        depth = 0
        for end in range(start + 1, len(message)):
            depth += {"(": 1, ")": -1}.get(message[end], 0)
            if not depth:
                break
        message = message[:start] + message[end + 1 :]
    return message
