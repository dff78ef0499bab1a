"""`vitscope VERB ...`: find the verb's file, read its options, run it, turn errors into one line.

A verb is a module of this package with a dataclass `Options` (the flags, and the keys of a `--config` YAML
file) and a function `run(options) -> None`; it may have `expand(arguments)`, which rewrites its short forms
into plain flags, and `epilogue()`, printed after its help. Nothing here, and nothing at the top of a verb's
file, imports torch: help must be quick.
"""

import dataclasses
import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from vitscope.errors import VitscopeError
from vitscope.interrupt import Terminated, termination_raises

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
    "models": "list the models that can be named",
    "data": "list the data sets, or prepare one",
}


def main(argv: list[str] | None = None) -> int:
    """Entry point of the `vitscope` command; returns the exit code."""
    code = _main(argv)
    peers = sys.modules.get("vitscope.peers")
    if peers is not None and peers.is_left_waiting():  # Python's own end would wait for a process that hangs
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _main(argv: list[str] | None) -> int:
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
            raise VitscopeError(f"no verb '{verb}'; there are: {', '.join(VERBS)}. Try: vitscope --help")
        module = importlib.import_module(f"vitscope.cli.{verb}")
        if hasattr(module, "expand"):  # a verb's own short forms
            rest = module.expand(rest)
        try:
            options = read_options(module.Options, rest, f"vitscope {verb}")
        except SystemExit as stop:
            if stop.code in (0, None) and hasattr(module, "epilogue"):  # after --help
                print(module.epilogue())
            raise
        with termination_raises():
            module.run(options)
    except VitscopeError as error:
        if debug:
            raise
        print(f"vitscope: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as asked:
        print(
            "\nvitscope: interrupted; what was finished is kept",
            file=sys.stderr,
        )
        return 143 if isinstance(asked, Terminated) else 130
    except BrokenPipeError:  # `vitscope models | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        print(f"vitscope: {type(error).__name__}: {error}\n(add --debug for the traceback)", file=sys.stderr)
        return 1
    return 0


def read_options(options_type: type, arguments: list[str], program: str) -> Any:
    """Parse `arguments` into `options_type`; a `--config FILE.yaml` gives the defaults that flags then
    override."""
    import tyro

    arguments, config = _take_config(arguments)
    _leave_out_empty_defaults(options_type)
    if config is None:
        return tyro.cli(options_type, args=arguments, prog=program)
    content = _read_yaml(config)
    default = _defaults(options_type, content, config)
    options = tyro.cli(options_type, args=arguments, prog=program, default=default)
    _allow_code(options, content, arguments, config)
    return options


def _leave_out_empty_defaults(options_type: type) -> None:
    """Let `--help` say nothing of a default that is nothing: what happens then stands in the option's own words."""
    import tyro

    annotated: Any = Annotated  # the type is known only when this runs
    for field in dataclasses.fields(options_type):
        if field.default in ((), None):
            declared = options_type.__annotations__[field.name]
            silent = annotated[declared, tyro.conf.arg(help_behavior_hint="")]
            options_type.__annotations__[field.name] = silent


def _allow_code(options: Any, content: dict[str, Any], arguments: list[str], path: Path) -> None:
    """Code that the file names, and the user has not typed as well, runs only with --trust-code."""
    untyped = {name: _untyped(getattr(options, name), arguments) for name in content}
    if any(":" in str(value) for value in untyped.values()):  # else torch need not be loaded
        from vitscope.models.trust import allow_options

        allow_options(untyped, f"--config {path}", getattr(options, "trust_code", False))


def _untyped(value: Any, arguments: list[str]) -> Any:
    if isinstance(value, tuple):
        return [item for item in value if item not in arguments]
    return None if value in arguments else value


def _take_config(arguments: list[str]) -> tuple[list[str], Path | None]:
    for i, argument in enumerate(arguments):
        if argument == "--config":
            if i + 1 == len(arguments):
                raise VitscopeError("--config needs a file: --config options.yaml")
            return arguments[:i] + arguments[i + 2 :], Path(arguments[i + 1])
        if argument.startswith("--config="):
            return arguments[:i] + arguments[i + 1 :], Path(argument.split("=", 1)[1])
    return arguments, None


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise VitscopeError(f"cannot read --config {path}: {error}") from error
    if not isinstance(content, dict):
        raise VitscopeError(
            f"--config {path} should hold 'option: value' lines, not a {type(content).__name__}"
        )
    if "trust_code" in content:
        raise VitscopeError(
            f"--config {path} sets trust_code, which no file can; type --trust-code if you trust what it names"
        )
    return content


def _defaults(options_type: type, content: dict[str, Any], path: Path) -> Any:
    import tyro

    fields = {f.name: f for f in dataclasses.fields(options_type)}
    unknown = sorted(set(content) - set(fields))
    if unknown:
        raise VitscopeError(f"--config {path}: unknown {', '.join(unknown)}; known are: {', '.join(fields)}")
    values = {}
    for name, field in fields.items():
        if name in content:
            value = content[name]
            values[name] = tuple(value) if isinstance(value, list) else value
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[name] = tyro.MISSING
    return options_type(**values)


def _usage() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {what}" for verb, what in VERBS.items()]
    return "\n".join(
        [
            "usage: vitscope VERB [options]",
            "",
            "Tells you how a vision model works. Start with: vitscope demo",
            "",
            *lines,
            "",
            "vitscope VERB --help shows the options of a verb; every verb also takes",
            "  --config FILE.yaml   options from a file (flags win)",
            "  --debug              full traceback on an error",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
