"""Code that a file names runs only if the user says so: `--trust-code`, in Python `trust_code=True`.

What is typed as `package.module:factory` is the user's own choice. The same words in a run folder's `config.json`, in
`run.json`, in a YAML of options or in the folder of a Hugging Face model are a stranger's, and so are arguments that
make a library read a pickle or load code. No file can switch this on.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from vitscope.core.errors import BadResult
from vitscope.models.errors import UntrustedCode
from vitscope.models.sources import timm as from_timm
from vitscope.models.sources import torchvision as from_torchvision
from vitscope.models.sources.dense import backbone_of

HUGGING_FACE = "hf:"
OUR_FACTORIES: set[str] = set()  # names of our own, which ask again for what they are told to make
HOW = "if you trust where it comes from, add --trust-code (in Python: trust_code=True)"
_CHOICES = ("name", "pretrained", "checkpoint", "trust_code")  # the caller's, never a file's
_LOADING = frozenset(
    "checkpoint_path pretrained_cfg pretrained_cfg_overlay cache_dir attn_implementation experts_implementation "
    "quantization_config auto_map".split()
)
_LONGEST = 200
_LARGEST = 1_000_000  # depth, width or side of a model that a file describes
_MOST_CLASSES = 10_000_000


def names_code(name: str) -> bool:
    """Whether making a model of this name calls a function that the name leads to."""
    name = backbone_of(name)
    if ":" not in name or name.startswith((HUGGING_FACE, from_torchvision.PREFIX)):
        return False
    return not from_timm.has(name)


def allow_model(name: Any, arguments: Any, file: object, trust_code: bool) -> None:
    """Refuse to make the model that a file describes (as `create_model` takes it), if its name leads to a function or
    an argument to a pickle or to code, and the user did not ask for that; or if it makes the user's choices."""
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise BadResult(
            f"{file} is damaged: it describes a model as {_call(name, arguments)}, expected a name and its arguments; "
            "copy the folder again"
        )
    if chosen := [key for key in arguments if key in _CHOICES]:
        raise BadResult(
            f"{file} sets {chosen[0]}={arguments[chosen[0]]!r}, which only the user can; remove it from the file"
        )
    large = (
        None if names_code(name) else _too_large(arguments)
    )  # what code makes of numbers is its own affair
    if large is not None:
        raise BadResult(
            f"{file} is damaged: it describes a model of a size that none has ('{large}' in {_call(name, arguments)}); "
            "copy the folder again"
        )
    if trust_code:
        return
    if names_code(name) and backbone_of(name) not in OUR_FACTORIES:
        raise UntrustedCode(f"{file} names code, which was not run: {_call(name, arguments)}; {HOW}")
    loading = [key for key in arguments if str(key).startswith("_") or key in _LOADING]
    if loading:
        raise UntrustedCode(
            f"{file} wants {_call(name, arguments)}, where '{loading[0]}' can load code or a pickle; {HOW}"
        )


def allow_data(spec: str, file: object, trust_code: bool) -> None:
    """Refuse images that a file names, if opening them can start a command (`pipe:` of webdataset)."""
    if spec.startswith("timm:wds/") and ":" in spec.removeprefix("timm:") and not trust_code:
        raise UntrustedCode(f"{file} names images that a command may fetch, which was not run: {spec}; {HOW}")


def allow_options(options: Mapping[str, Any], file: object, trust_code: bool) -> None:
    """The same for the models, images and functions among options that stand in a file."""
    for key in ("model", "models", "first", "second", "teacher", "deep_ensemble"):
        value = options.get(key)
        for name in value if isinstance(value, list | tuple) else [value]:
            if isinstance(name, str):
                allow_model(name, {}, file, trust_code)
    if isinstance(options.get("data"), str):
        allow_data(options["data"], file, trust_code)
    for words in (str(text).split() for text in options.get("operations") or ()):  # of `vitscope operate`
        for key, _, value in (word.partition("=") for word in words):
            if key == "data":
                allow_data(value, file, trust_code)
            elif key == "measure" and not trust_code:
                raise UntrustedCode(f"{file} names code, which was not run: {_call(value, {})}; {HOW}")


def _too_large(arguments: Mapping[str, Any]) -> str | None:
    """The argument that asks for a size which no model has, such as a depth of a thousand million."""
    for key, value in arguments.items():
        most = _MOST_CLASSES if key == "num_classes" else _LARGEST
        if any(abs(number) > most for number in _whole_numbers(value)):
            return str(key)
    return None


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _whole_numbers(one)
    elif isinstance(value, int):
        yield value


def _call(name: Any, arguments: Any) -> str:
    """What would be called, as Python writes it, in one line."""
    if isinstance(arguments, Mapping):
        words = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    else:
        words = repr(arguments)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in f"{name}({words})")
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
