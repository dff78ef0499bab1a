"""Models that answer questions about images: `vilt_mini`. Those of Hugging Face are `hf:`, as its others."""

from torch import nn

from vitscope.core.arguments import Count, check
from vitscope.core.errors import VitscopeError
from vitscope.models.errors import BadWeights, CannotBuild, UnknownArgument
from vitscope.models.origin import set_input
from vitscope.models.sources import ModelRequest
from vitscope.models.sources.huggingface import logits_alone

MINI = "vilt_mini"
_ANSWERS = 2  # where nobody says how many


def names() -> list[str]:
    """The names of all models that answer questions."""
    return [MINI]


def has(name: str) -> bool:
    """Whether it is one of them."""
    return name == MINI


def build(request: ModelRequest) -> nn.Module:
    """From its configuration; `vocabulary` are the words of the questions, `question_length` how many it reads."""
    try:
        from transformers import ViltConfig

        from vitscope.models.dense.vilt import build_mini
        from vitscope.models.dense.words import LENGTH, Words
    except ImportError as error:
        raise VitscopeError(f"{MINI} needs transformers; type: pip install 'vitscope[tasks]'") from error
    if request.pretrained:
        raise BadWeights(
            f"no pretrained weights for {MINI}: it has none; train it with: vitscope train {MINI}"
        )
    arguments = dict(request.arguments)
    vocabulary = check(tuple(arguments.pop("vocabulary", ())), tuple[str, ...], "vocabulary")
    words = Words(vocabulary, check(arguments.pop("question_length", LENGTH), Count, "question_length"))
    known = ViltConfig()
    if unknown := [key for key in arguments if not hasattr(known, key)]:
        raise UnknownArgument(
            f"{MINI} takes no argument '{unknown[0]}'; it takes vocabulary, question_length and what a ViltConfig has",
            unknown[0],
        )
    size = request.size
    if size is not None and size[0] != size[1]:
        raise CannotBuild(
            f"{MINI} takes square images, not {size[0]}x{size[1]}; say one side: img_size={size[0]}"
        )
    classes = check(request.num_classes or _ANSWERS, Count, "num_classes")
    model = build_mini(classes, None if size is None else size[0], words, arguments)
    model.register_forward_hook(logits_alone)
    model.num_classes = classes
    side: int = model.config.image_size  # type: ignore[union-attr,assignment]
    half = (0.5, 0.5, 0.5)
    set_input(
        model,
        input_size=(3, side, side),
        mean=half,
        std=half,
        crop_pct=1.0,
        num_classes=classes,
        said_by="the model",
    )
    return model
