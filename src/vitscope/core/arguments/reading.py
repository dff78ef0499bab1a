"""Read a value by its type: from a word on the command line, from several in one word, from a YAML file."""

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from vitscope.core.arguments.checking import check, problem_with_path, take
from vitscope.core.arguments.kinds import alternatives, base_of, is_path, is_several
from vitscope.core.arguments.words import describe, refusal
from vitscope.core.errors import BadArgument


def read(text: str, hint: Any, name: str) -> Any:
    """What a word on the command line says, by the type; else refuses it."""
    for one in alternatives(hint):
        taken, problem = take(_from_text(text, one), one)
        if problem is None and not (taken is None and text not in ("None", "none")):
            return taken
    wanted = [one for one in alternatives(hint) if base_of(one) is not types.NoneType]
    problems = [take(_from_text(text, one), one)[1] for one in wanted]
    why = next((problem for problem in problems if problem not in (None, "_")), "_")
    raise BadArgument(refusal(name, text, Union[tuple(wanted)], why))  # noqa: UP007 - known only when this runs


def read_list(text: str, hint: Any, name: str) -> Any:
    """The same where the type may be a list: its values stand between commas, with or without brackets."""
    kinds = [base_of(one) for one in alternatives(hint)]
    lists = [kind for kind in kinds if is_several(kind)]
    nothing_else = all(is_several(kind) or kind is types.NoneType for kind in kinds)
    bracketed = text.startswith("[") and text.endswith("]")
    if not lists or not (bracketed or "," in text or nothing_else) or text in ("None", "none"):
        return read(text, hint, name)
    inside = text[1:-1].strip() if bracketed else text
    element = (get_args(lists[0]) or (str,))[0]
    values = []
    for piece in inside.split(",") if inside else []:
        try:
            values.append(read(piece.strip(), element, name))
        except BadArgument:
            raise BadArgument(
                f"{name} is '{text}' ('{piece.strip()}' in it); expected {describe(hint)}"
            ) from None
    return check(values, hint, name)


def from_yaml(value: Any, hint: Any, name: str) -> Any:
    """A value of a YAML file, by the type: 1e-3 is a number there too, a path is text."""
    for one in alternatives(hint):
        base = base_of(one)
        if isinstance(value, str) and base in (float, Path):
            taken, problem = take(_from_text(value, one), one)
            if problem is None:
                return taken
        elif isinstance(value, list) and is_several(base):
            element = (get_args(base) or (Any,))[0]
            return tuple(from_yaml(item, element, f"{name}[{i}]") for i, item in enumerate(value))
    return check(value, hint, name)


def _from_text(text: str, hint: Any) -> Any:
    """The plainest reading of a word for a type; the word itself if there is none."""
    base = base_of(hint)
    origin = get_origin(base)
    try:
        if base is int:
            return int(text) if text.strip() == text and "_" not in text else text
        if base is float:
            return float(text) if text.strip() == text and "_" not in text else text
    except ValueError:
        return text
    if base is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if base is types.NoneType:
        return None if text in ("None", "none") else text
    if is_path(base):
        return Path(text) if problem_with_path(text) is None else text
    if origin is Literal:
        return next((word for word in get_args(base) if str(word) == text), text)
    return text
