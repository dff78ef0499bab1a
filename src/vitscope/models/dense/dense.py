"""What dense models share: a backbone that runs as it is, its maps, a neck, a head.

model.backbone   as `create_model` makes it, trained and operated on or not
model.neck       a pyramid of its maps
model.head       what the task wants of the pyramid
"""

from typing import Any

from torch import Tensor, nn

from vitscope.anatomy import dissect
from vitscope.models.dense.levels import Keeper, find_levels, is_plain, used_parameters
from vitscope.models.dense.neck import NoNeck, PyramidNeck

PARTS = ("backbone", "neck", "head")  # what anatomy tells apart


class Dense(nn.Module):
    """A backbone with hooks on the modules that hand its maps on; a subclass says what the head is.

    Args:
        backbone: Any model whose units anatomy finds.
        size: (channels, height, width) of the images it is built for.
        levels: How many of its stages are used, the coarsest ones; None: all.
        norm: In the neck of a backbone without stages.

    Weights of the backbone that no map depends on (`unused`: its classifier, a last norm) are frozen.
    """

    vitscope_task = ""
    vitscope_parts = PARTS

    def __init__(
        self,
        backbone: nn.Module,
        size: tuple[int, int, int],
        levels: int | None = 4,
        norm: Any = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        body = dissect(backbone, size)
        all_levels = find_levels(body)
        plain = is_plain(all_levels)
        self.levels = tuple(all_levels if levels is None else all_levels[-levels:])
        self.feeding = tuple(dict.fromkeys(f"backbone.{level.block}" for level in self.levels))
        self.backbone = backbone
        self.neck: nn.Module = PyramidNeck(self.levels[0].channels, norm) if plain else NoNeck()
        used = used_parameters(body, self.levels)
        self.unused = tuple(name for name, one in backbone.named_parameters() if id(one) not in used)
        for name in self.unused:
            backbone.get_parameter(name).requires_grad_(False)
        self._keepers = [Keeper() for _ in self.levels]
        for level, keeper in zip(self.levels, self._keepers, strict=True):
            backbone.get_submodule(level.module).register_forward_hook(keeper)

    def no_weight_decay(self) -> set[str]:
        """Nothing beside biases and norms: tokens and positions of a backbone are fine-tuned like its weights."""
        return set()

    @property
    def channels(self) -> tuple[int, ...]:
        """Widths of the pyramid's levels."""
        return tuple(level.channels for level in self.levels)

    def pyramid(self, images: Tensor) -> tuple[Tensor, ...]:
        """The levels of the pyramid, from the finest to the coarsest."""
        self.backbone(images)
        size = (images.shape[-2], images.shape[-1])
        kept = zip(self.levels, self._keepers, strict=True)
        pyramid: tuple[Tensor, ...] = self.neck(*[level.read(keeper.take(), size) for level, keeper in kept])
        return pyramid
