"""What exams, operations and corruptions are called, known before they are imported, which takes seconds."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from vitscope.core.errors import BadArgument, did_you_mean

ALL = "all"
# files in `exams/` that no diagnosis does: functions for Python, with results and figures as an exam has them
FUNCTIONS_ALONE = frozenset({"hessian_density", "hessian_training", "landscape_line"})


def exam_names(package: Path) -> list[str]:
    """The exams of a package by their files, whatever is declared inside."""
    files = {file.stem for file in package.glob("exams/*/[!_]*.py")}
    return sorted(files - FUNCTIONS_ALONE)


EXAM_NAMES = exam_names(Path(__file__).parents[1])
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
