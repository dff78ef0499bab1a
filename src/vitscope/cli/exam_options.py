"""Options of single exams among the words of a verb: `--hessian.batches 4` becomes `--options hessian.batches=4`."""

from vitscope.core.errors import VitscopeError
from vitscope.core.exam_names import EXAM_NAMES, check_exam_names


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
    from vitscope.core.arguments import describe
    from vitscope.engine.choosing import options_of
    from vitscope.exams import find_exams

    names = arguments[arguments.index("--exams") + 1 :]
    names = [name for name in names if not name.startswith("-")]
    for exam in find_exams(names or None):
        for option, hint in options_of(exam).items():
            lines.append(f"  --{exam.result.exam}.{option.replace('_', '-')}: {describe(hint)}")
    return "\n".join(lines)


def _is_of_an_exam(flag: str) -> bool:
    name, dot, option = flag.removeprefix("--").partition(".")
    return flag.startswith("--") and bool(dot) and name.replace("_", "a").isalnum() and bool(option)


def _shape(address: str) -> tuple[bool, bool]:
    """Whether an option takes several words, and whether it takes none; an unknown one is refused later."""
    exam, _, option = address.partition(".")
    check_exam_names([exam], EXAM_NAMES)

    from vitscope.core.arguments.kinds import alternatives, base_of, is_several
    from vitscope.engine.choosing import options_of
    from vitscope.exams import EXAMS

    known = options_of(EXAMS[exam])
    kinds = [base_of(one) for one in alternatives(known.get(option.replace("-", "_"), str))]
    return any(map(is_several, kinds)), kinds == [bool]
