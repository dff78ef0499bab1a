"""Options that verbs share; from words and YAML files to a verb's options, each value read by the type of its field."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from vitscope.cli.words import check_words, is_positional
from vitscope.core.arguments import (
    BatchSize,
    Classes,
    Count,
    CountFromZero,
    Device,
    Minutes,
    NotNegative,
    Number,
    Positive,
    Seed,
    Side,
    from_yaml,
    read,
)
from vitscope.core.arguments.kinds import alternatives, base_of
from vitscope.core.errors import BadArgument, VitscopeError, alike

_METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True, kw_only=True)
class CodeOptions:
    """Of verbs that open a model."""

    trust_code: bool = False
    """Run code that a run folder, a YAML of options or a model of Hugging Face names; no file can switch this on."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Of verbs that do many jobs."""

    store: Path = Path("runs/studies")
    """Folder for trained models and results, which all studies and surveys share."""
    engine: Literal["here", "local", "ray"] = "local"
    """Who does the jobs: this process, processes of this machine, or a Ray cluster."""
    workers: Count | None = None
    """Jobs at once; default: as many as there is room for."""
    address: str | None = None
    """Of the Ray cluster; default: the one that Ray finds, or a new one on this machine."""
    cpus_per_job: Count = 1
    """Threads of each job, whoever does it."""
    gpus_per_job: NotNegative | None = None
    """GPUs of each job; default: one where this machine has any."""
    budget: str | None = None
    """A time such as 6h or 90min: do the most telling jobs that fit into it."""
    retries: CountFromZero = 1
    """How often a job that failed is tried again."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions(CodeOptions):
    """The options that all verbs share which measure a model."""

    output: int | str | None = None
    """Which output holds the class scores, where that cannot be decided: a name such as logits, or a place from 0."""
    mean: tuple[Number, ...] | None = None
    """What was subtracted from pixels from 0 to 1, per channel, if the model should not say so itself."""
    std: tuple[Positive, ...] | None = None
    """What they were divided by, per channel."""
    timeout_minutes: Minutes = 60.0
    """How long the processes of torchrun wait for one that does not answer."""


@dataclass(frozen=True, kw_only=True)
class ImageOptions(ModelOptions):
    """Of verbs that show images to models."""

    split: str = "test"
    """Which part of the data."""
    limit: Count | None = None
    """Use this many images, the same share of every class; default: all."""
    batch_size: BatchSize = 128
    """Images per forward pass."""
    seed: Seed = 0
    """Decides which images a limit takes, and the bootstrap."""
    device: Device | None = None
    """cpu, cuda, cuda:1 ...; default: a GPU if there is one."""
    skip_broken: bool = False
    """Pass over image files that cannot be decoded, and say which; else the first of them ends it."""
    pretrained: bool = True
    """Load the weights that come with a name; a run folder's are always loaded."""
    img_size: Side | None = None
    """Side of the images, if the model should not have its own."""
    num_classes: Classes | None = None
    """Size of the head, if the model should not have its own."""

    def of_images(self) -> dict[str, Any]:
        """What `diagnose` and `evaluate` of the library take by the same names."""
        import torch

        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        names = ("limit", "batch_size", "seed", "output", "mean", "std")
        return {"device": device, **{name: getattr(self, name) for name in names}}

    def of_models(self) -> dict[str, Any]:
        """The arguments that `create_model` makes each model with."""
        names = ("img_size", "num_classes", "trust_code")
        weights = None if self.pretrained else False
        return {"pretrained": weights, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, kw_only=True)
class ExamOptions(ImageOptions):
    """Of verbs that run exams of several models."""

    data: str = "fashion"
    """Where the images come from (see: vitscope data list)."""
    options: tuple[str, ...] = ()
    """Options of single exams: hessian.batches=4. Shorter: --hessian.batches 4."""


def read_options(options_type: type, arguments: list[str], program: str) -> Any:
    """Parse `arguments` into `options_type`; a `--config FILE.yaml` gives the defaults that flags then
    override."""
    import tyro

    arguments, config = _take_config(arguments)
    _use_own_words(options_type)
    content = {} if config is None else _read_yaml(config)
    default = tyro.MISSING_NONPROP if config is None else _defaults(options_type, content, config)
    helping = "-h" in arguments or "--help" in arguments
    if helping:
        arguments = ["--help"]  # tyro leaves words that are given out of the usage
    else:
        check_words(options_type, hints_of_options(options_type), arguments, program, content)
    try:
        options = tyro.cli(
            options_type, args=arguments, prog=program, default=default, console_outputs=helping
        )
    except SystemExit:
        if helping:
            raise
        raise VitscopeError(f"these words do not fit together; see: {program} --help") from None
    if config is None:
        return options
    _allow_code(options, content, arguments, config)
    return options


def hints_of_options(options_type: type) -> dict[str, Any]:
    """The types of the fields, as they were declared."""
    declared = getattr(options_type, "__declared__", None)
    return declared or get_type_hints(options_type, include_extras=True)


def _use_own_words(options_type: Any) -> None:
    """Let every value be read by `arguments.read`, and `--help` say nothing of a default that is nothing.

    A verb's own options come first in it, those that it shares after them.
    """
    import tyro

    if "__declared__" in options_type.__dict__:
        return
    options_type.__declared__ = hints_of_options(options_type)
    names = [name for kind in options_type.__mro__ for name in vars(kind).get("__annotations__", ())]
    known = options_type.__dataclass_fields__
    options_type.__dataclass_fields__ = {name: known[name] for name in dict.fromkeys(names)}
    annotated: Any = Annotated  # the types are known only when this runs
    for field in dataclasses.fields(options_type):
        hint = options_type.__declared__[field.name]
        if field.default in ((), None):
            hint = annotated[hint, tyro.conf.arg(help_behavior_hint="")]
        if base_of(hint) is not bool:
            hint = annotated[hint, _reader(hint, _flag(field.name, hint))]
        options_type.__annotations__[field.name] = hint


def _flag(name: str, hint: Any) -> str:
    return name.upper() if is_positional(hint) else f"--{name.replace('_', '-')}"


def _reader(hint: Any, flag: str) -> Any:
    """How tyro is to read a field: one word, or several for a tuple."""
    import tyro

    one_of = [one for one in alternatives(hint) if base_of(one) is not NoneType]
    several = [one for one in one_of if get_origin(base_of(one)) is tuple]
    element = get_args(base_of(several[0]))[0] if several else hint

    def from_words(words: list[str]) -> Any:
        values = [_read(word, element, flag) for word in words]
        return tuple(values) if several else values[0]

    def to_words(value: Any) -> list[str]:
        return [str(one) for one in value] if isinstance(value, tuple | list) else [str(value)]

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar=_metavar(element) + (" ..." if several else ""),
        instance_from_str=from_words,
        is_instance=lambda value: True,
        str_from_instance=to_words,
    )


def _read(word: str, hint: Any, flag: str) -> Any:
    try:
        return read(word, hint, flag)
    except BadArgument as error:
        if flag == "--img-size" and re.fullmatch(r"\d+\D\d+", word):
            from vitscope.anatomy.watch.example import not_square

            raise VitscopeError(f"{error}; {not_square()}") from None
        raise VitscopeError(str(error)) from None  # tyro would put a ValueError into a box of its own


def _metavar(hint: Any) -> str:
    words = []
    for one in alternatives(hint):
        base = base_of(one)
        if get_origin(base) is Literal:
            words.append("{" + ",".join(map(str, get_args(base))) + "}")
        elif base is not NoneType:
            words.append(_METAVARS.get(base, "TEXT"))
    return "|".join(dict.fromkeys(words))


def _allow_code(options: Any, content: dict[str, Any], arguments: list[str], path: Path) -> None:
    """Code that the file names, and the user has not typed as well, runs only with --trust-code."""
    untyped = {name: _untyped(getattr(options, name), arguments) for name in content}
    if any(
        sign in str(value) for value in untyped.values() for sign in ":="
    ):  # else torch need not be loaded
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
            return arguments[:i] + arguments[i + 2 :], read(arguments[i + 1], Path, "--config")
        if argument.startswith("--config="):
            return arguments[:i] + arguments[i + 1 :], read(argument.split("=", 1)[1], Path, "--config")
    return arguments, None


def _read_yaml(path: Path) -> dict[str, Any]:
    from vitscope.core.arguments.yaml_files import read_yaml

    content = read_yaml(path, f"--config {path}", "option: value")
    if "trust_code" in content:
        raise VitscopeError(
            f"--config {path} sets trust_code, which no file can; type --trust-code if you trust what it names"
        )
    return content


def _defaults(options_type: type, content: dict[str, Any], path: Path) -> Any:
    import tyro

    fields = {f.name: f for f in dataclasses.fields(options_type)}
    hints = hints_of_options(options_type)
    for name in content:
        if name not in fields:
            near = alike(name, fields)
            allowed = [name for name in fields if name != "trust_code"]
            known = f"did you mean {near[0]}?" if near else f"there are: {', '.join(allowed)}"
            raise VitscopeError(f"--config {path}: no option {name}; {known}")
    values = {}
    for name, field in fields.items():
        if name in content:
            values[name] = from_yaml(content[name], hints[name], f"--config {path}: {name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[name] = tyro.MISSING
    return options_type(**values)
