"""What exams, operations and corruptions are called, known before they are imported, which takes seconds."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from vitscope.core.errors import BadArgument, did_you_mean

ALL = "all"
_DECLARED = re.compile(r"^(@procedure|class \w+Accumulator)\(", re.MULTILINE)
# files that declare none are functions alone, such as `hessian_density`
EXAM_NAMES = sorted(
    file.stem
    for file in Path(__file__).parents[1].glob("exams/*/*.py")
    if _DECLARED.search(file.read_text("utf-8"))
)
OPERATION_NAMES = sorted(
    name
    for file in Path(__file__).parents[1].glob("surgery/*.py")
    for name in re.findall(r"^@operation\ndef (\w+)", file.read_text("utf-8"), re.MULTILINE)
)

# The corruptions of CIFAR-C and ImageNet-C
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
CORRUPTIONS_VERSION = 1  # raised when one changes, so that images and results of the old one are made again


def check_exam_names(names: Iterable[str], known: Collection[str] = (*EXAM_NAMES, ALL)) -> None:
    """Refuse a name that no exam has."""
    for name in names:
        if name not in known:
            raise BadArgument(f"no exam '{name}'; {did_you_mean(name, known)}")
