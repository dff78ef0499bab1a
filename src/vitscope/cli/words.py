"""The words of a command against the options of its verb: what is unknown, missing or too many is said in one line.

Among them may be options of single exams: `--hessian.batches 4` becomes `--options hessian.batches=4`.
"""

import dataclasses
from collections.abc import Collection, Sequence
from types import NoneType
from typing import Any, get_origin

from vitscope.core.arguments.kinds import alternatives, base_of, conditions_of, describe
from vitscope.core.errors import VitscopeError, alike
from vitscope.core.names import EXAM_NAMES, check_exam_names


@dataclasses.dataclass(frozen=True)
class _Known:
    """A field of a verb's options."""

    field: Any
    hint: Any

    @property
    def positional(self) -> bool:
        return is_positional(self.hint)

    @property
    def switch(self) -> bool:
        return base_of(self.hint) is bool

    @property
    def several(self) -> bool:
        kinds = [base_of(one) for one in alternatives(self.hint) if base_of(one) is not NoneType]
        return any(get_origin(kind) is tuple for kind in kinds)

    @property
    def needed(self) -> bool:
        return self.field.default is dataclasses.MISSING and not self.several

    @property
    def name(self) -> str:
        return self.field.name.upper() if self.positional else f"--{self.field.name.replace('_', '-')}"

    def flags(self) -> list[str]:
        if self.positional:
            return []
        aliases = [
            alias for extra in conditions_of(self.hint) for alias in getattr(extra, "aliases", None) or ()
        ]
        return [self.name, *([self.name.replace("--", "--no-", 1)] if self.switch else []), *aliases]


def check_words(
    options_type: Any,
    hints: dict[str, Any],
    words: Sequence[str],
    program: str,
    elsewhere: Collection[str] = (),
) -> None:
    """Refuse words that do not fit; `elsewhere` are the fields that a file gives."""
    known = [_Known(field, hints[field.name]) for field in dataclasses.fields(options_type)]
    flags = {flag: one for one in known for flag in one.flags()}
    places = [one for one in known if one.positional]
    left = list(words)
    loose: list[str] = []
    while left:
        word = left.pop(0)
        if not _is_flag(word):
            loose.append(word)
            continue
        flag, equals, _ = word.partition("=")
        one = flags.get(flag.replace("_", "-"))
        if one is None:
            raise VitscopeError(_unknown(flag, flags, program))
        if one.switch or equals:
            continue
        taken = 0
        while left and not _is_flag(left[0]) and (one.several or not taken):
            left.pop(0)
            taken += 1
        if not taken:
            expected = describe(one.hint).removesuffix(", or None").removesuffix(" or None")
            raise VitscopeError(f"{flag} needs a value; expected {expected} (see: {program} --help)")
    room = len(loose)
    for one in places:
        if one.needed and room < 1 and one.field.name not in elsewhere:
            raise VitscopeError(
                f"{one.name} is missing; expected: {program} {_pattern(places)} (see: {program} --help)"
            )
        room = 0 if one.several else max(0, room - 1)
    if room:
        raise VitscopeError(
            f"'{loose[-room]}' is one word too many; expected: {program} {_pattern(places)}".rstrip()
            + f" (see: {program} --help)"
        )


def _is_flag(word: str) -> bool:
    """Not a value: negative numbers are values."""
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit() and word[1] != "."


def _unknown(flag: str, flags: Collection[str], program: str) -> str:
    by_word = {known.lstrip("-"): known for known in flags}
    near = alike(flag.lstrip("-").replace("_", "-"), by_word)
    meant = f"did you mean {by_word[near[0]]}?" if near else "expected one of its options"
    return f"no option {flag}; {meant} (see: {program} --help)"


def _pattern(places: Sequence[_Known]) -> str:
    return " ".join(f"{one.name} ..." if one.several else one.name for one in places)


def is_positional(hint: Any) -> bool:
    """Whether a field is typed by its place, without a flag."""
    return any("Positional" in repr(extra) for extra in conditions_of(hint))


def expand(arguments: list[str]) -> list[str]:
    """The words with those of exams gathered behind `--options`."""
    rest: list[str] = []
    gathered: list[str] = []
    i = 0
    while i < len(arguments):
        flag, equals, value = arguments[i].partition("=")
        i += 1
        if not _is_of_an_exam(flag):
            rest.append(arguments[i - 1])
            continue
        address = flag.removeprefix("--")
        words = [value] if equals else []
        several, switch = _shape(address)
        while not equals and not switch and i < len(arguments) and not arguments[i].startswith("--"):
            words.append(arguments[i])
            i += 1
            if not several:
                break
        if not words and not switch:
            raise VitscopeError(f"{flag} needs a value: {flag} VALUE")
        gathered.append(f"{address}={','.join(words) if words else 'true'}")
    return [*rest, "--options", *gathered] if gathered else rest


def epilogue(arguments: list[str]) -> str:
    """How options of exams are written; those of the exams that are named beside `--help`."""
    lines = ["options of an exam, as in --hessian.batches 4; listed by: --exams EXAM --help"]
    if "--exams" not in arguments:
        return lines[0]
    from vitscope.cli.exam_help import option_lines
    from vitscope.exams import find_exams

    names = arguments[arguments.index("--exams") + 1 :]
    names = [name for name in names if not name.startswith("-")]
    chosen = find_exams(names or None)
    for exam in chosen:
        lines += option_lines(exam)
    if len(lines) == 1:
        told = ", ".join(exam.result.exam for exam in chosen)
        return f"exams without options: {told}"
    return "\n".join(lines)


def _is_of_an_exam(flag: str) -> bool:
    name, dot, option = flag.removeprefix("--").partition(".")
    return flag.startswith("--") and bool(dot) and name.replace("-", "_").isidentifier() and bool(option)


def _shape(address: str) -> tuple[bool, bool]:
    """Whether an option takes several words, and whether it takes none; an unknown one is refused later."""
    exam, _, option = address.replace("-", "_").partition(".")
    check_exam_names([exam], EXAM_NAMES)

    from vitscope.core.arguments.kinds import alternatives, base_of, is_several
    from vitscope.engine.choose_exams import options_of
    from vitscope.exams import EXAMS

    known = options_of(EXAMS[exam])
    kinds = [base_of(one) for one in alternatives(known.get(option, str))]
    return any(map(is_several, kinds)), kinds == [bool]
