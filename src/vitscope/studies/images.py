"""The images of a study: what an arm is trained on, what is held out, what an exam looks at.

Which images these are does not depend on the seed of a training: all trainings of an arm see the same part of the
training images, and all arms are examined on the same held-out ones, so that they can be compared image by image.
"""

from collections.abc import Callable
from dataclasses import dataclass

from vitscope.data import ImageData, load_data, relabel
from vitscope.studies.design import VALIDATION
from vitscope.training.candidate import split

SEED = 0  # of every choice of images
Open = Callable[[str, str, bool], ImageData]


def open_whole(data: str, split: str, skip_broken: bool) -> ImageData:
    """All images of a split."""
    found: ImageData = load_data(data, split=split, skip_broken=skip_broken)
    return found


@dataclass(frozen=True)
class Part:
    """Some of the images that a name stands for.

    Attributes:
        data: What `load_data` takes.
        split: "train", "validation", or any that the data has.
        fraction: Part of every class of the training images.
        validation: Share of the training images that is held out, before a fraction is taken of the others.
        labels: Published labels instead of the images' own; see `relabel`.
        classes: Which outputs may be chosen.
        skip_broken: Leave out image files that cannot be decoded.
    """

    data: str
    split: str
    fraction: float = 1.0
    validation: float | None = None
    labels: str | None = None
    classes: str | None = None
    skip_broken: bool = False

    def load(self, opened: Open | None = None) -> ImageData:
        """Open the data, and label it as the part says; `opened` gives all images of (data, split, skip_broken)."""
        images = self._load(opened or open_whole)
        if self.labels is None and self.classes is None:
            return images
        return relabel(images, self.labels, self.classes)

    def _load(self, opened: Open) -> ImageData:
        if self.split not in ("train", VALIDATION) or (self.split == VALIDATION and self.validation is None):
            return opened(self.data, self.split, self.skip_broken)
        images = opened(self.data, "train", self.skip_broken)
        if self.validation is not None:
            learned, held_out = split(images, self.validation, SEED)
            if self.split == VALIDATION:
                held_out.split = VALIDATION
                return held_out
            images = learned
        return images.fraction(self.fraction, SEED)
