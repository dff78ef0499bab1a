"""Which images an exam was about, in words."""

from vitscope.results import Result


def images_of(result: Result) -> str:
    """The data, and what was done to its images: `fashion (train), augmented by recipe hdv`."""
    recipe, prepared, _ = _augmentation(result).partition(", ")
    done = f", {'mixed' if prepared else 'augmented'} by recipe {recipe}"
    return result.data + (done if is_augmented(result) else "")


def is_augmented(result: Result) -> bool:
    """Whether images were not shown as they are: the loss is then no other exam's."""
    return _augmentation(result) != "none"


def _augmentation(result: Result) -> str:
    return str(getattr(result, "augmentation", "none"))
