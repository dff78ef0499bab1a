"""From a name to a model: timm's, ours, torchvision's, Hugging Face's, a user's own, a run folder's."""

import os
import warnings
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from torch import nn

from vitscope.core.arguments import ModelName, Probability, Range, check, checked
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult, alike, warn
from vitscope.models.errors import CannotBuild, TwinWarning, UnknownModel
from vitscope.models.origin import remember_random_weights, set_origin
from vitscope.models.sources import ModelRequest, run_folder
from vitscope.models.sources import dense as from_dense
from vitscope.models.sources import factory as from_factory
from vitscope.models.sources import huggingface as from_huggingface
from vitscope.models.sources import timm as from_timm
from vitscope.models.sources import torchvision as from_torchvision
from vitscope.models.sources import vqa as from_vqa
from vitscope.models.sources.run_folder import CONFIG
from vitscope.models.trust import names_code
from vitscope.models.zoo import OURS
from vitscope.results.run import Run

_NUMBERS: dict[str, Any] = {  # that mean the same in every model that takes them
    "in_chans": Annotated[int, Range(1, 4096)],
    "drop_rate": Probability,
    "drop_path_rate": Probability,
    "attn_drop_rate": Probability,
    "proj_drop_rate": Probability,
}
_OF_WEIGHTS = (".bin", ".ckpt", ".h5", ".msgpack", ".npz", ".onnx", ".pt", ".pth", ".safetensors")


@checked
def create_model(
    name: ModelName,
    pretrained: bool | None = False,
    num_classes: int | None = None,
    img_size: int | tuple[int, int] | None = None,
    checkpoint: str | None = None,
    trust_code: bool = False,
    **arguments: Any,
) -> nn.Module:
    """Make a model by name.

    Args:
        name: A timm name ("resnet50", "vit_small_patch16_224.augreg_in1k"), one of ours ("vit_mini"),
            "tv:resnet50", "hf:owner/name" or "hf:folder", "package.module:factory", or a run folder. With "upernet:"
            before any of these it is the backbone of a model for a dense task.
        pretrained: Load the weights that come with the name; None does so too, and leaves it to a factory of one's own
            that takes no `pretrained`. A run folder's weights are always loaded.
        num_classes: Size of the head; as the model has it if not given.
        img_size: Side or (height, width) of the images; goes to the models whose weights depend on it, and
            into the data configuration of all. A name of timm's that has a twin for small images here
            ("resnet50": "resnet50_32") gives the twin at 64 pixels or less, which is noted, unless it is to be
            pretrained.
        checkpoint: Of a run folder, the moment of its training to take the weights of ("init", "warmup", "best",
            "epoch-005", "last": see `list_checkpoints`); default: those it ended with.
        trust_code: Run code that a file names: the function in a run folder's `config.json`, what a model of Hugging
            Face brings along. What is named here, as `package.module:factory`, needs no such leave.
        **arguments: Passed on to the model's constructor.

    Returns:
        The model, with `pretrained_cfg` that says how to prepare images for it.

    Raises:
        UnknownModel: No such model; the message holds the nearest names.
        UntrustedCode: A file names code and `trust_code` is not given.
        UnknownArgument: The model does not take one of `arguments`.
        CannotBuild: The model refuses the sizes or arguments it is given.
        BadWeights: The weights are missing, damaged, or made for another model.
    """
    for number, hint in _NUMBERS.items():
        if arguments.get(number) is not None:
            arguments[number] = check(arguments[number], hint, number)
    sizes = {"num_classes": num_classes, "img_size": img_size}
    folder = _run_folder(name)
    if folder is not None:
        changes = {key: value for key, value in {**sizes, **arguments}.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TwinWarning)  # it was said when the model was new
            return run_folder.load_model(folder, create_model, checkpoint, trust_code, **changes)
    if checkpoint is not None:
        raise CannotBuild(
            f"checkpoint='{checkpoint}' is for run folders; {os.fspath(name)} is a model's name"
        )
    name = os.fspath(name)
    given = {**{k: v for k, v in sizes.items() if v is not None}, **arguments}
    try:
        request = ModelRequest(name, pretrained, num_classes, img_size, arguments, trust_code)
        if from_dense.has(name):  # knows by itself how it can be made again
            return from_dense.build(request, create_model, run_folder.redo_operations)
        model = _source(name).build(request)
    except (AssertionError, LookupError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        if not given:
            raise
        wanted = ", ".join(f"{key}={value!r}" for key, value in given.items())
        raise CannotBuild(
            f"{name} cannot be built with {wanted} ({reason(error)}); try other values"
        ) from error
    set_origin(model, name, given)
    if random_weights(name, pretrained):
        remember_random_weights(model)
    return model


@checked
def list_models(pattern: str = "*") -> list[str]:
    """The names that match the pattern: ours first, then timm's, then torchvision's."""
    theirs = [name for name in from_timm.names() if name not in OURS]
    names = [*OURS, *from_vqa.names(), *theirs, *from_torchvision.names()]
    return [name for name in names if fnmatch(name, pattern)]


def check_name(name: str | os.PathLike[str], trust_code: bool = False) -> None:
    """Refuse what `create_model` would refuse for its name alone, without building anything."""
    folder = _run_folder(name)
    if folder is not None:
        run_folder.check_model(folder, trust_code)
        return
    name = os.fspath(name)
    if from_dense.has(name):
        check_name(from_dense.backbone_of(name), trust_code)
        return
    source = _source(name)
    if source is from_huggingface:
        from_huggingface.check_name(name)
    elif source is from_timm:
        from_timm.check_name(name)
    elif source is from_factory:
        from_factory.find(name)


def random_weights(name: str | os.PathLike[str], pretrained: bool | None = None) -> str:
    """What is to be said about a model that has nothing but random weights; empty if it is not known to."""
    folder = _run_folder(name)
    if folder is None:
        name = os.fspath(name)
        if pretrained is not False or names_code(name):  # a function may load weights by itself
            return ""
        return f"the weights of {name} are random; pretrained=True loads those that come with it, if there are any"
    try:
        record = Run.open(folder).record
    except BadResult:
        return ""
    done = [one.get("options") or {} for one in (record, *record.get("earlier", []))]
    if not any(one.get("random_weights") for one in done) or any("recipe" in one for one in done):
        return ""
    return (
        f"the weights of {folder} are random: it was operated on before any training; vitscope train {folder}"
    )


def tell_of_random_weights(name: str | os.PathLike[str], pretrained: bool | None = None) -> None:
    """Warn if a model that is about to be examined has nothing but random weights."""
    if note := random_weights(name, pretrained):
        warn(note)


def _source(name: str) -> ModuleType:
    """The module that builds what such names stand for."""
    if from_timm.has(name):
        return from_timm
    if from_torchvision.has(name):
        return from_torchvision
    if from_vqa.has(name):
        return from_vqa
    if name.startswith(from_huggingface.PREFIX):
        return from_huggingface
    if ":" in name and not name.startswith(from_torchvision.PREFIX):
        return from_factory
    raise _unknown(name)


def _run_folder(name: str | os.PathLike[str]) -> Path | None:
    """The folder, if the name is one; a name that timm knows is a model even beside a folder of that name."""
    if isinstance(name, str) and (from_timm.has(name) or from_vqa.has(name) or ":" in name):
        return None
    path = Path(name)
    if path.is_file():
        raise UnknownModel(_is_a_file(path))
    if path.is_dir() or not isinstance(name, str):
        return path
    if os.sep in name:
        raise UnknownModel(
            f"no run folder '{name}'; a model of the hub is hf:owner/name, the others show: vitscope models"
        )
    return None


def _is_a_file(path: Path) -> str:
    """A file of weights does not say whose they are."""
    what = "a file of weights" if path.suffix in _OF_WEIGHTS else "a file"
    if (path.parent / CONFIG).is_file():
        return f"'{path}' is {what} in a run folder; give the folder: {path.parent}"
    return (
        f"'{path}' is {what}, and a model is expected; write a function that builds the model and loads it, and give "
        "its name: package.module:function (see docs/your-own-model.md)"
    )


def _unknown(name: str) -> UnknownModel:
    names = list_models()
    near = alike(name, names, 3)
    near += [known for known in names if name and known.startswith(name) and known not in near][:2]
    hint = f"did you mean {', '.join(near)}?" if near else "no name is near it."
    return UnknownModel(f"no model '{name}'; {hint} See the names with: vitscope models '*{name[:4]}*'")
