"""A classifier of pictures: the normalisation is folded into the model, so that exams think in pixels."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitscope.core.errors import UnsupportedModel
from vitscope.data import data_config
from vitscope.engine.not_finite import finite_scores
from vitscope.engine.robustness.pixels import PixelSpace

Score = Callable[[Tensor], Tensor]  # from logits (N, classes) to (N,)


class NoGradient(UnsupportedModel):
    """The model's scores cannot be derived with respect to its image."""


class PixelModel:
    """What `model` says about pictures (N, C, H, W) with pixels from 0 to 1.

    Args:
        model: A classifier.
        dtype: In which it computes.
        space: Between its input and pictures; default: as its data configuration says.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, space: PixelSpace | None = None) -> None:
        self._model, self._dtype = model, dtype
        self._space = space or PixelSpace(data_config(model))

    def pixels(self, images: Tensor) -> Tensor:
        """The pictures of images that are prepared for the model."""
        return self._space.to_pixels(images)

    def clean(self, images: Tensor) -> Tensor:
        """(N, classes) of images that are prepared for the model, as they are."""
        with torch.inference_mode():
            return finite_scores(self._model, images.to(self._dtype))

    def logits(self, pixels: Tensor) -> Tensor:
        """(N, classes)."""
        with torch.inference_mode():
            return self._forward(pixels)

    def gradient(self, pixels: Tensor, score: Score) -> Tensor:
        """The gradient of each picture's own score with respect to its pixels; parameters get none.

        Args:
            pixels: (N, C, H, W).
            score: From logits (N, classes) to (N,).

        Raises:
            NoGradient: The model cuts it off.
        """
        with torch.enable_grad():
            pixels = pixels.detach().requires_grad_()
            total = score(self._forward(pixels)).sum()
            found = torch.autograd.grad(total, pixels, allow_unused=True)[0] if total.requires_grad else None
        if found is None:
            raise NoGradient(
                "the model's scores have no gradient with respect to the image; leave out the exams that need one"
            )
        return found

    def has_gradient(self, pixels: Tensor) -> bool:
        """Whether `gradient` works."""
        try:
            self.gradient(pixels, lambda logits: logits.amax(1))
        except NoGradient:
            return False
        return True

    def _forward(self, pixels: Tensor) -> Tensor:
        return finite_scores(self._model, self._space.to_input(pixels).to(self._dtype))
