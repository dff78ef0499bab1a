"""What the jobs of a study do: train an arm, operate on a trained model, examine one.

Their folders lie in the study's store, `out.parent.parent`: jobs name each other by keys, so that a store can be moved.
Everything random follows from the seed of the training, whichever process does the job, and after whatever other.
"""

import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

import vitscope.surgery  # noqa: F401 opens run folders whose model was operated on
from vitscope.data import ImageData, load_data
from vitscope.data.task_data import TaskData
from vitscope.engine.choose_exams import find_exams, with_options
from vitscope.engine.diagnose import run_exams
from vitscope.engine.takes_interface import Request
from vitscope.models import create_model, save_model
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import random_state_preserved, seed_all
from vitscope.studies.images import SEED, Part
from vitscope.studies.runners import THREADS
from vitscope.studies.store import Store
from vitscope.surgery.tools.record import OPERATIONS
from vitscope.tasks import find_task
from vitscope.training import train
from vitscope.training.checkpoint import PREVIOUS
from vitscope.training.setup import find_model

SAVE_EVERY = 500  # steps of a training that may be lost, besides those of an epoch


def train_arm(
    out: Path,
    model: Mapping[str, Any],
    operations: Sequence[Sequence[Any]],
    recipe: Mapping[str, Any],
    data: str,
    fraction: float,
    validation: float | None,
    seed: int,
    checkpoint_every: int | None = None,
    skip_broken: bool = False,
) -> dict[str, Any]:
    """Train one arm with one seed, or go on with it; leaves an ordinary run folder.

    Args:
        out: The folder.
        model: What it starts as; see `make`.
        operations: Names with arguments, done before the training.
        recipe: Every choice of it.
        data: What `load_data` takes.
        fraction: Part of every class of the training images.
        validation: Share of the training images that is held out instead of the test images.
        seed: Of the weights and of everything else.
        checkpoint_every: Epochs between two checkpoints to keep.
        skip_broken: See `Part`.
    """
    choices = Recipe(**recipe)
    images = Part(data, "train", fraction, validation, skip_broken=skip_broken).load()
    held_out = None
    if validation is not None:
        held_out = Part(data, "validation", 1.0, validation, skip_broken=skip_broken).load()
    with alone(seed):
        net = make(model, operations, Store.of_job(out), images, choices)
        done = train(
            net,
            images,
            choices,
            out,
            held_out=held_out,
            seed=seed,
            resume=True,
            save_every=SAVE_EVERY,
            checkpoint_every=checkpoint_every,
            skip_broken=skip_broken,
            measure_every=_looks(images, held_out),
            workers=_loaders(),
            progress=False,
        )
    parameters = sum(parameter.numel() for parameter in net.parameters())
    facts = {"parameters": parameters, "images": len(images), "device": str(next(net.parameters()).device)}
    Store.of_job(out).keep_training(out.name, facts)
    (out / PREVIOUS).unlink(missing_ok=True)  # the last state is whole, and all that going on would need
    last = {"accuracy": done.accuracy, "train_loss": done.train_loss}
    return {"parameters": parameters, **{key: _finite(value) for key, value in last.items()}}


def operate_arm(
    out: Path, model: Mapping[str, Any], operations: Sequence[Sequence[Any]], seed: int
) -> dict[str, Any]:
    """Operate on a model that is not trained after that, and leave it in a run folder."""
    with alone(seed):
        net = make(model, operations, Store.of_job(out))
        save_model(net, out)
    return {"parameters": sum(parameter.numel() for parameter in net.parameters())}


def examine(
    out: Path,
    model: Mapping[str, Any],
    seed: int,
    looks: Sequence[Mapping[str, Any]],
    data: str,
    split: str,
    limit: int | None,
    batch_size: int,
    fraction: float = 1.0,
    validation: float | None = None,
    labels: str | None = None,
    classes: str | None = None,
    checkpoint: str | None = None,
    skip_broken: bool = False,
) -> list[str]:
    """Exams of one model on the same images; those that can share a pass over them.

    Args:
        out: Where the work is done; each result goes to the place in the store that its key stands for.
        model: Which; see `make`.
        seed: Of weights that do not come from a training. Images and bootstrap of all exams have one seed.
        looks: "exam", "options" and "key" of each; every exam once.
        data: What `load_data` takes.
        split: Which images; see `Part`.
        limit: How many of them.
        batch_size: Images per forward pass.
        fraction: See `Part`.
        validation: See `Part`.
        labels: See `Part`.
        classes: See `Part`.
        checkpoint: The moment of the training; None: its end.
        skip_broken: See `Part`.
    """
    store = Store.of_job(out)
    missing = [look for look in looks if not store.has_result(look["key"], look["exam"])]
    if missing:
        options = {look["exam"]: _read(look["options"]) for look in missing if look["options"]}
        chosen = with_options(find_exams([look["exam"] for look in missing]), options)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        request = Request(limit, batch_size, SEED, device, str(model["name"]))
        images = Part(data, split, fraction, validation, labels, classes, skip_broken).load()
        with alone(seed):
            net = make(model, (), store, checkpoint=checkpoint).eval().to(device)
            found = run_exams(net, images, chosen, request, out, figures=False)
        for look in missing:
            folder = store.result_folder(look["key"], look["exam"])
            found[look["exam"]].save(folder, look["key"], packed=True)
    for left in out.iterdir():  # what is kept lies where its key stands for
        if left.name != "job":
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    return [look["key"] for look in looks]


@contextmanager
def alone(seed: int) -> Iterator[None]:
    """Inside, random draws begin at the seed, and torch has the threads that the job was given."""
    before, given = torch.get_num_threads(), os.environ.get(THREADS, "")
    with random_state_preserved():
        seed_all(seed)
        try:
            torch.set_num_threads(int(given) if given.isdigit() else before)
            yield
        finally:
            torch.set_num_threads(before)


def make(
    model: Mapping[str, Any],
    operations: Sequence[Sequence[Any]],
    store: Store,
    images: ImageData | TaskData | None = None,
    recipe: Recipe | None = None,
    checkpoint: str | None = None,
) -> nn.Module:
    """A model as a job needs it, operated on; draws from torch's generator.

    Args:
        model: {"name", "arguments", "trust_code"}, or of another job {"name", "from": "train" or "operate", "key"}.
        operations: Names with arguments.
        store: Where the other jobs' folders are.
        images: That it is to be trained on: they say how many classes it has and, of one size, how large they are.
        recipe: That it is to be trained by: says the stochastic depth of models that have it.
        checkpoint: Of another job's training, the moment to take.
    """
    trusted = bool(model.get("trust_code", False))
    if "key" in model:
        folder = store.job_folder(model["from"], model["key"])
        net = create_model(folder, checkpoint=checkpoint, trust_code=trusted)
    elif images is None or recipe is None:
        net = create_model(model["name"], **{"pretrained": None, **model["arguments"]}, trust_code=trusted)
    else:
        task = find_task(None, images)
        given = {**task.model_arguments(model["name"], images), **model["arguments"]}
        side = given.pop("img_size", side_of(images))
        net = find_model(model["name"], images.classes, side, recipe, trusted, task, **given)
    for name, arguments in operations:
        OPERATIONS[name](net, **arguments)
    return net


def side_of(images: ImageData | TaskData) -> int | None:
    """How large the images are, if they are square and all of one size; else a model's own size is taken."""
    pixels = images.images if isinstance(images, ImageData) else None
    if pixels is None or pixels.shape[1] != pixels.shape[2]:
        return None
    return int(pixels.shape[1])


def _read(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an exam, with a recipe that is written out as one."""
    return {
        key: Recipe(**value) if key == "recipe" and isinstance(value, Mapping) else value
        for key, value in options.items()
    }


def _looks(images: ImageData | TaskData, held_out: ImageData | TaskData | None) -> int:
    """Epochs between two looks at the held-out images: where these are many, looking takes a tenth of the time."""
    held_out = load_data(images.spec, split="test") if held_out is None else held_out
    return max(1, round(10 * len(held_out) / len(images)))


def _loaders() -> int | None:
    """Processes that load images: as many as this job has threads, without its own; None: as a training has."""
    threads = torch.get_num_threads()
    return None if threads >= (os.cpu_count() or 1) > 1 else threads - 1


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
