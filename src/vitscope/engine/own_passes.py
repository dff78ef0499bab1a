"""What exams with passes of their own share: the model in its place, its anatomy, and this process's images."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, anatomy, preserved
from vitscope.core import distributed
from vitscope.data import Readout, batches, data_config, readout
from vitscope.data.fetchers import require_labels
from vitscope.data.labels import PLAIN
from vitscope.engine.cache_key import data_name, images_digest
from vitscope.engine.one_pass import Images, compare_classes, first_batch, placed, progress
from vitscope.engine.sums import Sums
from vitscope.models import name_of


class OwnNumbers(Sums):
    """Base of what such an exam collects; `compute` gives what follows from the sums."""

    compute: Callable[[], dict[str, Any]]

    def finish(self) -> dict[str, Any]:
        """What `compute` gives over all images of all processes."""
        with self.of_all_processes():
            return self.compute()


@dataclass(frozen=True)
class OwnPasses:
    """A model that is about to be shown images, in evaluation mode."""

    model: nn.Module
    input_shape: tuple[int, ...]  # (C, H, W)
    first: Tensor  # images of the first batch
    as_given: bool  # images came as numbers, not as pictures that were prepared here
    stream: Iterable[Images]  # this process's share; to be read once
    n_images: int  # in it
    device: torch.device
    dtype: torch.dtype
    common: dict[str, Any]  # the fields that every result has, but for n
    readout: Readout = PLAIN  # how outputs are read as answers

    @cached_property
    def parts(self) -> Anatomy:
        """The model's units, looked for when first asked: not every exam needs them, and not every model has some."""
        return anatomy(self.model, self.input_shape)

    def noise(self, images: int, seed: int = 0) -> Tensor:
        """Gaussian noise in the place of prepared images, the same in every process."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(images, *self.input_shape, generator=generator).to(self.device, self.dtype)

    @contextmanager
    def progress(self, exam: str, n_images: int | None = None) -> Iterator[Callable[[int], Any]]:
        """A bar; call what it gives with the number of images that are done."""
        total = self.n_images if n_images is None else n_images
        with progress(total, f"{self.common['model']}: {exam}") as advance:
            yield advance


@contextmanager
def own_passes(
    model: nn.Module,
    data: Any,
    limit: int | None,
    batch_size: int,
    seed: int,
    device: str | torch.device | None,
    name: str | None,
    labelled: bool = False,
    skip: int = 0,
) -> Iterator[OwnPasses]:
    """Put the model in its place and open the data; `examine` documents the arguments.

    Args:
        labelled: Labels have to fit the model's classes.
        skip: Batches that this process has seen before, from the first on.
    """
    if labelled:
        require_labels(data)
    with preserved(model), placed(model, device) as place:
        torch.manual_seed(seed)
        share = partial(
            batches,
            data,
            model=model if labelled else None,
            config=data_config(model),
            batch_size=batch_size,
            limit=limit,
            seed=seed,
            device=place,
        )
        stream = share(rank=distributed.rank(), world=distributed.world_size(), skip=skip)
        if labelled:
            compare_classes(model, data)
        opened = stream if len(stream) else share()
        first, mine = first_batch(opened, keep=bool(len(stream)))
        yield OwnPasses(
            model=model,
            input_shape=tuple(first[0].shape[1:]),
            first=first[0],
            as_given=opened.as_given,
            stream=mine,
            n_images=stream.n_images,
            device=place,
            dtype=next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32),
            common={
                "model": name or name_of(model),
                "data": data_name(data),
                "seed": seed,
                "images_digest": images_digest(data),
            },
            readout=readout(data),
        )
