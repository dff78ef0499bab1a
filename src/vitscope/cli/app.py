"""`vitscope VERB ...`: find the verb's file, read its options, run it, turn errors into one line.

A verb is a module of this package with a dataclass `Options` (the flags, and the keys of a `--config` YAML
file) and a function `run(options) -> None`; it may have `expand(arguments)`, which rewrites its short forms
into plain flags, and `epilogue()`, printed after its help. Nothing here, and nothing at the top of a verb's
file, imports torch: help must be quick.
"""

import importlib
import os
import sys
from typing import Any, NoReturn

from vitscope.cli.options import read_options
from vitscope.core.arguments.files import in_words
from vitscope.core.errors import VitscopeError, did_you_mean, memory_in_words
from vitscope.core.exit import run_program
from vitscope.core.interrupt import exit_code, termination_raises
from vitscope.core.names import check_exam_names

VERBS = {
    "demo": "examine three trained models on the embedded images and write a page",
    "anatomy": "print what a model is made of",
    "operate": "change a model: AlterNet, Context Broadcasting, local attention, smoothing ...",
    "diagnose": "examine models on images: one pass, all exams",
    "evaluate": "how good, calibrated and robust predictions are, model against model",
    "prescribe": "propose operations from a diagnosis, with the evidence; apply them and look again",
    "report": "make one page out of runs",
    "compare": "two models, or two runs, on one page, image by image",
    "serve": "pages of a folder of runs, that follow a training under way",
    "train": "train a model",
    "study": "train arms with several seeds, examine them, compare them, as a file says",
    "reproduce": "put the papers' statements to the test, each by a rule that stands before it runs",
    "survey": "examine many models as they come: one table, one atlas",
    "models": "list the models that can be named",
    "data": "list the data sets, or prepare one",
}

GOES_ON = (
    "demo",
    "diagnose",
    "evaluate",
    "prescribe",
    "compare",
    "study",
    "reproduce",
    "survey",
)  # where they were stopped
ENDED_BY_SIGNALS = ("serve",)  # as they say themselves


def program() -> NoReturn:
    """The `vitscope` command as a process of its own, which ends when it is done."""
    run_program(main)


def main(argv: list[str] | None = None) -> int:
    """Do what the words of a command say; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        from vitscope import __version__

        print(f"vitscope {__version__}")
        return 0
    verb, rest = arguments[0], arguments[1:]
    try:
        if verb not in VERBS:
            raise VitscopeError(f"no verb '{verb}'; {did_you_mean(verb, VERBS)} (see: vitscope --help)")
        with termination_raises():
            module = importlib.import_module(f"vitscope.cli.{verb}")
            module.run(_read(module, rest, verb))
    except VitscopeError as error:
        if debug:
            raise
        print(f"vitscope: {_in_words_of(verb, error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as asked:
        if verb in ENDED_BY_SIGNALS:
            return exit_code(asked)
        kept = "; what was finished is kept: the same command goes on with it" if verb in GOES_ON else ""
        print(f"\nvitscope: interrupted{kept}", file=sys.stderr)
        return exit_code(asked)
    except BrokenPipeError:  # `vitscope models | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        said = memory_in_words(error) or (in_words(error) if isinstance(error, OSError) else None)
        if said is not None:
            print(f"vitscope: {_in_words_of(verb, VitscopeError(said))}", file=sys.stderr)
            return 2
        print(f"vitscope: {type(error).__name__}: {error}\n(add --debug for the traceback)", file=sys.stderr)
        return 1
    return 0


def _read(module: Any, words: list[str], verb: str) -> Any:
    """The options of a verb out of the words of a command."""
    if hasattr(module, "expand"):  # a verb's own short forms
        words = module.expand(words)
    try:
        options = read_options(module.Options, words, f"vitscope {verb}")
    except SystemExit as stop:
        if stop.code in (0, None) and hasattr(module, "epilogue"):  # after --help
            print(module.epilogue(words))
        raise
    check_exam_names([*getattr(options, "exams", ()), *getattr(options, "monitor", ())])
    return options


def _in_words_of(verb: str, error: VitscopeError) -> str:
    """What an error says, as it is typed."""
    from vitscope.cli.as_typed import as_typed

    module = sys.modules.get(f"vitscope.cli.{verb}")
    return str(error) if module is None else as_typed(str(error), verb, module.Options, error.exam)


def _usage() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {what}" for verb, what in VERBS.items()]
    return "\n".join(
        [
            "usage: vitscope VERB [options]\n",
            "Tells you how a vision model works. Start with: vitscope demo\n",
            *lines,
            "\nvitscope VERB --help shows the options of a verb; every verb also takes",
            "  --config FILE.yaml   options from a file (flags win)",
            "  --debug              full traceback on an error",
        ]
    )


if __name__ == "__main__":
    program()
