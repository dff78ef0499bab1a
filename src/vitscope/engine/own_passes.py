"""Passes of their own: a model in its place, its anatomy, this process's images; or two models on the same ones."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from vitscope.anatomy import Anatomy, Tap, Unit, anatomy, preserved
from vitscope.anatomy.taps.capture import Stream
from vitscope.core import distributed
from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.core.finite import checksum
from vitscope.data import Readout, batches, data_config, readout
from vitscope.data.fetchers import require_labels
from vitscope.data.readouts import PLAIN
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.facts import data_name, images_digest
from vitscope.engine.not_finite import finite_scores_in, require_finite_features
from vitscope.engine.one_pass import Images, compare_classes, first_batch, placed, progress
from vitscope.models import name_of
from vitscope.results import Result, UnitRow


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


Images = tuple[Tensor, Tensor, Tensor]  # images, labels, indices
Measure = Callable[[Tensor], Tensor]


def examine_pair(
    model: nn.Module,
    other: nn.Module,
    data: Any,
    exam: Callable[[Subject, Subject], Accumulator],
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    stream: Stream = "read",
) -> Result:
    """Run an exam that compares the maps of two models; `examine` documents the arguments.

    The accumulator's `measure` sees the maps of the whole batch, and `Batch.values` holds what it gave on the
    first model's units and then on the other's. Predictions are not handed on.
    """
    models = (model, other)
    with preserved(model), preserved(other), placed(model, device) as place, placed(other, place):
        torch.manual_seed(seed)
        share = partial(
            _same_images, models, data, batch_size=batch_size, limit=limit, seed=seed, device=place
        )
        n_images, mine = share(rank=distributed.rank(), world=distributed.world_size())
        iterator = iter(mine)
        own = next(iterator, None)  # a process may have no share of the data
        example = next(iter(share()[1])) if own is None else own
        parts = [_anatomy(m, images) for m, (images, _, _) in zip(models, example, strict=True)]
        first, second = (
            Subject(
                name_of(m), data_name(data), tuple(UnitRow.of(unit, stream) for unit in found.mapped), seed
            )
            for m, found in zip(models, parts, strict=True)
        )
        accumulator = exam(first, second)
        heading = f"{first.model} and {second.model}: {accumulator.result.exam}"
        with progress(n_images, heading) as advance:
            for shown in chain([] if own is None else [own], iterator):
                values = [
                    value
                    for m, found, (images, _, _) in zip(models, parts, shown, strict=True)
                    for value in _measured(m, found, images, accumulator.measure, stream)
                ]
                _, labels, indices = shown[0]
                accumulator.update(Batch(torch.empty(0), labels, indices, tuple(values)))
                advance(len(labels))
        return accumulator.finish()


def _same_images(
    models: tuple[nn.Module, nn.Module], data: Any, **options: Any
) -> tuple[int, Iterable[tuple[Images, ...]]]:
    """How many images, and the same batches for both models; read once where they can be prepared the same way."""
    configs = [data_config(model) for model in models]
    first = batches(data, config=configs[0], **options)
    if configs[0] == configs[1]:
        return first.n_images, ((batch, batch) for batch in first)
    if isinstance(data, DataLoader | IterableDataset):
        raise BadData(
            f"{name_of(models[0])} and {name_of(models[1])} want their images prepared in different ways, a "
            f"{type(data).__name__} gives one; pass what load_data gives, or a Dataset"
        )
    return first.n_images, zip(first, batches(data, config=configs[1], **options), strict=True)


def _anatomy(model: nn.Module, images: Tensor) -> Anatomy:
    parts = anatomy(model, tuple(images.shape[1:]))
    if not parts.mapped:
        raise UnsupportedModel(
            f"{name_of(model)} has no unit with a feature map; compare models that have, see: vitscope anatomy"
        )
    return parts


def _measured(
    model: nn.Module, parts: Anatomy, images: Tensor, measure: Measure, stream: Stream
) -> list[Tensor]:
    """What `measure` gives on the map after every unit; tapped batch by batch, so that the other is not."""
    found: list[Tensor] = []
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    checksums: list[Tensor] = []

    def look(unit: Unit, feature: Tensor) -> None:
        checksums.append(checksum(feature))
        found.append(measure(feature))

    shown = images.to(dtype)
    with torch.inference_mode(), Tap(model, parts, parts.mapped, on_feature=look, stream=stream):
        output = model(shown)
    finite_scores_in(model, output, shown)
    require_finite_features(checksums, model, shown, parts)
    return found
