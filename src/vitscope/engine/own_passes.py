"""What a pass over the data needs: a model in its place, this process's images; or two models on the same ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from vitscope.anatomy import Anatomy, Unit, anatomy, preserved
from vitscope.anatomy.taps.capture import Stream
from vitscope.core import distributed
from vitscope.core.errors import BadData, UnsupportedModel, VitscopeError, warn
from vitscope.core.progress import progress
from vitscope.core.tensors import dtype_of, kept_memory
from vitscope.data import Readout, batches, class_count, data_config, readout
from vitscope.data.fetchers import require_labels
from vitscope.data.images import class_names
from vitscope.data.task_data import TaskData
from vitscope.engine.exam import Accumulator, Batch, ProcedureSums, Subject
from vitscope.engine.facts import data_name, images_digest
from vitscope.engine.image_range import tell_of_far
from vitscope.engine.not_finite import look_inside
from vitscope.engine.resuming import PartialResults, ResumablePass
from vitscope.engine.takes_interface import Request
from vitscope.engine.task_inputs import Shown, require_said, require_task, shown_by
from vitscope.findings.prediction import outputs_and_classes
from vitscope.models import name_of
from vitscope.results import Result, UnitRow

Images = tuple[Tensor, Tensor, Tensor]  # images, labels, indices


@dataclass(frozen=True)
class OwnPasses:
    """A model that is about to be shown images, in evaluation mode."""

    model: nn.Module
    first: Tensor  # images of the first batch
    as_given: bool  # images came as numbers, not as pictures that were prepared here
    stream: Iterable[Images]  # this process's share; to be read once
    n_images: int  # in it
    device: torch.device
    dtype: torch.dtype
    common: dict[str, Any]  # the fields that every result has, but for n
    readout: Readout  # how outputs are read as answers
    resumable: ResumablePass  # what was collected before an interruption
    shown: Shown  # what the model is given of images at some places
    pictures: TaskData | None = None  # the data, where it is of a task

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return tuple(self.first.shape[1:])

    @cached_property
    def anatomy(self) -> Anatomy:
        """The model's units, looked for when first asked: not every exam needs them, and not every model has some."""
        return anatomy(self.model, self.input_shape)

    @property
    def mapped_anatomy(self) -> Anatomy:
        """The same; a model in which there is no map to measure is refused."""
        if not self.anatomy.mapped:
            raise UnsupportedModel(
                f"{self.anatomy.model_name} has no unit with a feature map; try: --exams prediction, which needs none"
            )
        return self.anatomy

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

    def accumulate(
        self, exam: str, numbers: Mapping[str, ProcedureSums], take: Callable[[Tensor, Tensor, Tensor], None]
    ) -> None:
        """`take` every batch into `numbers`, which go on from an interruption, and are kept after each."""
        self.resumable.restore(numbers)
        with self.resumable, self.progress(exam) as advance:
            for images, labels, indices in self.stream:
                take(images, labels, indices)
                self.resumable.keep(numbers)
                advance(len(labels))


@contextmanager
def own_passes(
    model: nn.Module,
    data: Any,
    request: Request,
    labelled: bool = False,
    parts: PartialResults | None = None,
    or_task: bool = False,
    scored: bool = False,
) -> Iterator[OwnPasses]:
    """Put the model in its place and open the data; `examine` documents the arguments.

    Args:
        labelled: Labels have to fit the model's classes.
        parts: Where what is collected is kept (`OwnPasses.resumable`); batches that were taken in before are skipped.
        or_task: Instead of labels, the data may be of a task that the model is for (`OwnPasses.pictures`).
        scored: What is found in data of a task is compared with what is there.
    """
    pictures = data if isinstance(data, TaskData) else None
    if pictures is not None and or_task:
        require_task(data, model, pictures.task, "this exam")
    elif labelled:
        require_labels(data)
    resumable = ResumablePass(parts, request.batch_size)
    with preserved(model), placed(model, request.device) as place:
        torch.manual_seed(request.seed)
        share = partial(
            batches,
            data,
            model=model if labelled else None,
            config=data_config(model),
            batch_size=request.batch_size,
            limit=request.limit,
            seed=request.seed,
            device=place,
        )
        mine = share(rank=distributed.rank(), world=distributed.world_size(), skip=resumable.done)
        if pictures is not None and (or_task or scored):
            require_said(pictures, mine.places)
        if labelled:
            compare_classes(model, data)
        # a process without images of its own still sees what they are like
        opened = mine if len(mine) else share()
        iterator = iter(opened)  # data that can be read only once is read only once
        first = next(iterator)
        if opened.as_given:
            tell_of_far(first[0], data_config(model).for_channels(first[0].shape[1]))
        yield OwnPasses(
            model=model,
            first=first[0],
            as_given=opened.as_given,
            stream=chain([first], iterator) if len(mine) else (),
            n_images=mine.n_images,
            device=place,
            dtype=dtype_of(model),
            common={
                "model": request.name or name_of(model),
                "data": data_name(data),
                "seed": request.seed,
                "images_digest": images_digest(data),
            },
            readout=readout(data),
            resumable=resumable,
            shown=shown_by(model, data),
            pictures=pictures,
        )


def compare_classes(model: nn.Module, data: Any) -> None:
    """Say so if labels and outputs cannot stand for the same things."""
    outputs, classes = class_count(model), class_names(data)
    if outputs is not None and classes is not None and outputs != len(classes):
        warn(outputs_and_classes(outputs, len(classes)))


@contextmanager
def placed(model: nn.Module, device: str | torch.device | None) -> Iterator[torch.device]:
    """The model on `device`, and back where it was afterwards; on a CPU, passes reuse memory inside."""
    home = next((p.device for p in model.parameters()), torch.device("cpu"))
    if any(parameter.is_meta for parameter in model.parameters()):
        raise UnsupportedModel(
            f"{name_of(model)} has weights without values (on the meta device), and cannot be shown images; build "
            "it on a real device and load its weights (vs.anatomy takes it as it is)"
        )
    try:
        place = home if device is None else torch.device(device)
        model.to(place)
    except (RuntimeError, AssertionError) as error:
        raise VitscopeError(f"cannot use device '{device}' ({error}); try: --device cpu") from error
    try:
        with kept_memory(place):
            yield place
    finally:
        model.to(home)


def examine_pair(
    model: nn.Module,
    other: nn.Module,
    data: Any,
    exam: Callable[[Subject, Subject], Accumulator],
    request: Request,
    stream: Stream = "read",
) -> Result:
    """Run an exam that compares the maps of two models; `examine` documents the arguments.

    The accumulator's `measure` sees the maps of the whole batch, and `Batch.values` holds what it gave on the
    first model's units and then on the other's. Predictions are not handed on.
    """
    models, seed = (model, other), request.seed
    with preserved(model), preserved(other), placed(model, request.device) as place, placed(other, place):
        torch.manual_seed(seed)
        options: dict[str, Any] = {"batch_size": request.batch_size, "limit": request.limit}
        share = partial(_same_images, models, data, **options, seed=seed, device=place)
        n_images, mine = share(rank=distributed.rank(), world=distributed.world_size())
        iterator = iter(mine)
        first_batch = next(iterator, None)  # a process may have no share of the data
        example = next(iter(share()[1])) if first_batch is None else first_batch
        parts = [_mapped(m, images) for m, (images, _, _) in zip(models, example, strict=True)]
        first, second = (
            Subject(name_of(m), data_name(data), tuple(UnitRow.of(unit, stream) for unit in p.mapped), seed)
            for m, p in zip(models, parts, strict=True)
        )
        accumulator = exam(first, second)
        heading = f"{first.model} and {second.model}: {accumulator.result.exam}"
        values: list[Tensor] = []

        def measure(unit: Unit, feature: Tensor) -> None:
            values.append(accumulator.measure(feature))

        with progress(n_images, heading) as advance:
            for shown in chain([] if first_batch is None else [first_batch], iterator):
                values.clear()
                for m, p, (images, _, _) in zip(models, parts, shown, strict=True):
                    look_inside(m, p, images.to(dtype_of(m)), measure, stream)
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


def _mapped(model: nn.Module, images: Tensor) -> Anatomy:
    parts = anatomy(model, tuple(images.shape[1:]))
    if not parts.mapped:
        raise UnsupportedModel(
            f"{name_of(model)} has no unit with a feature map; compare models that have, see: vitscope anatomy"
        )
    return parts
