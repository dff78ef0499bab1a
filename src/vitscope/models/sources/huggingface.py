"""Image classifiers of Hugging Face, as `hf:<repository id>` or `hf:<folder written by save_pretrained>`, and ViLTs.

The model keeps its class and the names of its parts; its call returns the logits instead of an output object,
so that it can stand wherever any other classifier can. Weights are read from safetensors only.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.data.processors import stated
from vitscope.models.dense.words import HubWords
from vitscope.models.errors import BadWeights, UnknownArgument, UnknownModel, UntrustedCode
from vitscope.models.origin import pair, set_input
from vitscope.models.sources import ModelRequest, without_retries
from vitscope.models.trust import HOW, HUGGING_FACE

PREFIX = HUGGING_FACE
_KERNELS = ("_implementation", "_implementation_internal")  # "owner/name": code that is fetched from the hub


def build(request: ModelRequest) -> nn.Module:
    """`AutoModelForImageClassification` from its configuration, with its weights if they are wanted.

    A model that brings code of its own is made with `trust_code` only; nobody is asked on the terminal.
    """
    try:
        import transformers
    except ImportError as error:
        raise VitscopeError(
            f"{request.name} needs transformers; type: pip install 'vitscope[tasks]'"
        ) from error
    if _is_folder(request.name.removeprefix(PREFIX)):
        return _build(transformers, request)
    with without_retries():
        check_name(request.name)
        return _build(transformers, request)


def check_name(name: str) -> None:
    """Refuse a name that no model of the hub can have, and one that cannot be fetched."""
    where = name.removeprefix(PREFIX)
    if _is_folder(where):
        return
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", where):
        raise UnknownModel(
            f"no Hugging Face model '{where}'; expected hf:owner/name, or hf: and a folder with a config.json"
        )
    with without_retries() as cut_off:
        if cut_off and not _is_cached(where):
            raise UnknownModel(
                f"no Hugging Face model '{where}' in the cache, and there is no network; expected hf: and a folder "
                "with a config.json, or a name of: vitscope models"
            )


def _is_cached(where: str) -> bool:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(where, "config.json"), str)
    except HFValidationError:
        return True  # no name of a model: what is wrong with it is said by who reads it


def _is_folder(where: str) -> bool:
    return bool(where) and Path(where).is_dir()


def _build(transformers: Any, request: ModelRequest) -> nn.Module:
    name, size, trust_code = request.name, request.size, request.trust_code
    where = name.removeprefix(PREFIX)
    try:
        _allow(name, transformers.PretrainedConfig.get_config_dict(where)[0], trust_code)
        config = transformers.AutoConfig.from_pretrained(where, trust_remote_code=trust_code)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UnknownModel(
            f"no Hugging Face model '{where}' ({reason}); "
            "expected hf:owner/name, or hf: and a folder with a config.json"
        ) from error
    new_head = request.num_classes not in (None, config.num_labels)
    changes = request.arguments | ({"num_labels": request.num_classes} if new_head else {})
    unknown = sorted(key for key in changes if not hasattr(config, key))
    if unknown:
        raise UnknownArgument(
            f"the configuration of {name} has no '{unknown[0]}'; see {type(config).__name__}", unknown[0]
        )
    if size is not None and hasattr(config, "image_size"):
        changes["image_size"] = size if isinstance(config.image_size, list | tuple) else size[0]
    for key, value in changes.items():
        setattr(config, key, value)
    asks = config.model_type == "vilt"
    auto = transformers.AutoModelForImageClassification
    if asks:
        auto = transformers.AutoModelForVisualQuestionAnswering
    try:
        if request.weights:
            load = {"use_safetensors": True, "ignore_mismatched_sizes": new_head}
            model = auto.from_pretrained(where, config=config, trust_remote_code=trust_code, **load)
        else:
            model = auto.from_config(config, trust_remote_code=trust_code)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise BadWeights(
            f"cannot make {name} ({reason}); expected an image classifier in safetensors"
        ) from error
    if asks:
        from vitscope.models.dense.vilt import prepared

        prepared(model, _words(where, config, trust_code))
    model.register_forward_hook(logits_alone)
    model.num_classes = config.num_labels
    set_input(model, num_classes=config.num_labels, **_preprocessing(where, config, size, trust_code))
    return model


def _allow(name: str, said: Mapping[str, Any], trust_code: bool) -> None:
    """Refuse a configuration that makes transformers import code from the model's folder or from the hub."""
    own = said.get("auto_map")
    own = own if isinstance(own, Mapping) else {}
    code = [f"{key}={own[key]}" for key in ("AutoConfig", "AutoModelForImageClassification") if key in own]
    code += [f"{key}={value}" for key, value in said.items() if key.endswith(_KERNELS) and "/" in str(value)]
    if code and not trust_code:
        raise UntrustedCode(f"{name} brings code of its own, which was not run: {', '.join(code)}; {HOW}")


def _words(where: str, config: Any, trust_code: bool) -> HubWords | None:
    """The model's own way to make numbers of questions, if it brings one."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=trust_code)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # made up where there is none: it knows no word
        return None
    return HubWords(tokenizer, config.max_position_embeddings)


def logits_alone(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
    """A hook: the class scores of what transformers returns."""
    return getattr(output, "logits", output)


def _preprocessing(where: str, config: Any, size: tuple[int, int] | None, trust_code: bool) -> dict[str, Any]:
    """Mean, deviation and size that the model's own image processor states, as far as it has one."""
    from transformers import AutoImageProcessor, ImageProcessingMixin

    known: dict[str, Any] = {"crop_pct": 1.0}
    with suppress(OSError, ValueError):  # it has none
        processor, _ = ImageProcessingMixin.get_image_processor_dict(where)
        with suppress(ValueError):  # it has code of its own, which is not run: what its file says has to do
            processor = AutoImageProcessor.from_pretrained(where, trust_remote_code=trust_code).to_dict()
        known |= stated(processor)
    if "mean" in known:
        known["said_by"] = "its image processor"
    side = getattr(config, "image_size", None) or known.pop("side", 224)
    known.pop("side", None)
    height, width = size or pair(side if isinstance(side, int) else tuple(side))  # type: ignore[misc]
    return {**known, "input_size": (getattr(config, "num_channels", 3), height, width)}
