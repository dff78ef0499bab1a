"""The training loop.

    vitscope train vit_mini --data fashion --recipe mini --out runs/a
    vitscope train vit_mini --data fashion --recipe mini --out runs/a --resume    # after an interruption

A run folder always holds a usable model (of the last finished epoch) and the state to go on from. A training
that was interrupted and resumed ends with the same weights as one that was not, because every random draw is
a function of the seed and of the place in the training (see `seeding`).
"""

import json
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitscope.data import DataConfig
from vitscope.errors import VitscopeError
from vitscope.models import load_run_weights, name_of, origin, save_model
from vitscope.results import Run
from vitscope.training import checkpoint
from vitscope.training.checkpoint import Progress
from vitscope.training.evaluate import evaluate
from vitscope.training.interrupt import Interruptible
from vitscope.training.log import Bar, Metrics
from vitscope.training.recipe import Recipe, get_recipe
from vitscope.training.seeding import preserved, seed_all
from vitscope.training.setup import Images, find_images, find_model, settle
from vitscope.training.steps import Stepper, TrainingDiverged


@dataclass(frozen=True)
class Trained:
    """A finished training: its folder and the last row of its `metrics.csv` (NaN without held-out images)."""

    path: Path
    epochs: int
    train_loss: float
    accuracy: float
    low: float
    high: float
    nll: float
    images_per_second: float
    seconds: float


def train(
    model: str | os.PathLike[str] | nn.Module,
    data: Any,
    recipe: str | Recipe = "mini",
    out: str | os.PathLike[str] | None = None,
    *,
    held_out: Any = None,
    fraction: float = 1.0,
    img_size: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    resume: bool = False,
    seed: int = 0,
    device: str | torch.device | None = None,
    workers: int = 0,
    progress: bool = True,
) -> Trained:
    """Train a model and leave it in a run folder, from which `create_model` makes it again.

    Args:
        model: A name that `create_model` knows (a new model with a head for the data), a run folder, whose
            model is trained further, or a module, which is trained in place.
        data: A spec such as "fashion", what `load_data` gives, or a data set of (PIL image or uint8 array,
            label).
        recipe: A name of `RECIPES`, or a `Recipe`.
        out: The run folder; default `runs/<model>-<data>`.
        held_out: Images to measure on after each epoch; default: the test split of `data`.
        fraction: Class-stratified, seeded part of the training images to use.
        img_size: Side of the images, for a model given by name.
        epochs: Instead of the recipe's.
        batch_size: Instead of the recipe's.
        lr: Instead of the recipe's.
        resume: Go on with what is in `out`; starts from the beginning if nothing is there yet.
        seed: Decides the weights at the start, the order of the images, every augmentation.
        device: Default: CUDA if there is any, else the CPU.
        workers: Processes that load and augment images; the result does not depend on it.
        progress: Show a bar on stderr.

    Raises:
        TrainingDiverged: The loss became infinite or not a number. The run folder, and a model that was
            passed in, hold the weights of the last finished epoch.
        KeyboardInterrupt: On Ctrl-C or SIGTERM, once the state has been written.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise VitscopeError("training runs in one process; start it without torchrun")
    choices = get_recipe(recipe, epochs=epochs, batch_size=batch_size, lr=lr)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    images = find_images(data, held_out, fraction, seed)
    with preserved():
        seed_all(seed)
        net = find_model(model, images.classes, img_size, choices)
        net = net.to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
        config, classes = settle(net, images.classes, where)
        folder = Path(out) if out is not None else Path("runs") / _file_name(f"{name_of(net)}-{images.name}")
        stepper = Stepper(net, images.train, config, len(classes), choices, seed, where, workers)
        asked = name_of(net) if isinstance(model, nn.Module) else os.fspath(model)
        setting = _setting(asked, net, images, choices, fraction, seed)
        position = _position(folder, stepper, setting, resume)
        facts = {
            "name": name_of(net),
            "parameters": sum(parameter.numel() for parameter in net.parameters()),
            "input_size": config.input_size,
        }
        with Run.start(folder, options=setting, seed=seed, device=str(where), model=facts):
            return _run(folder, stepper, images, config, classes, position, setting, progress)


def _run(
    folder: Path,
    stepper: Stepper,
    images: Images,
    config: DataConfig,
    classes: tuple[str, ...],
    position: Progress,
    setting: dict[str, Any],
    shown: bool,
) -> Trained:
    """Train from `position` to the end."""
    model, total = stepper.model, math.ceil(stepper.recipe.total_epochs)
    metrics = Metrics(folder, position.rows)
    done = position.epoch * len(images.train) + position.images
    with Interruptible() as interrupt, Bar(total, len(images.train), done, shown) as bar:
        while position.epoch < total:
            began, images_before, seconds_before = time.monotonic(), position.images, position.seconds

            def after_step(n_images: int, loss: float) -> bool:
                bar.step(position.epoch, n_images, loss)
                return interrupt.asked

            try:
                complete = stepper.epoch(position, after_step)
            except TrainingDiverged as error:
                raise _diverged(error, model, folder, position.epoch) from error
            spent = time.monotonic() - began
            position.seconds = seconds_before + spent
            if complete:
                row = _row(stepper, images, config, position, (position.images - images_before) / spent)
                position.seconds = row["seconds"] = round(seconds_before + time.monotonic() - began, 2)
                position.rows.append(row)
                position.epoch, position.step, position.loss_sum, position.images = (
                    position.epoch + 1,
                    0,
                    0.0,
                    0,
                )
                save_model(model, folder, classes, config)
                metrics.add(row)
                bar.row(row)
            if complete or interrupt.asked:
                checkpoint.save_state(folder, model, stepper.optimizer, position, setting)
            if interrupt.asked and position.epoch < total:
                _say(
                    f"stopped in epoch {position.epoch + 1} of {total}; go on: the same command and --resume"
                )
                raise KeyboardInterrupt
    last = position.rows[-1]
    return Trained(folder, position.epoch, **{k: v for k, v in last.items() if k not in ("epoch", "lr")})


def _row(
    stepper: Stepper, images: Images, config: DataConfig, position: Progress, rate: float
) -> dict[str, Any]:
    """A row of `metrics.csv`; measures on the held-out images."""
    row: dict[str, Any] = {
        "epoch": position.epoch + 1,
        "lr": stepper.learning_rate(),
        "train_loss": position.loss_sum / position.images,
    }
    measured = {"nll": math.nan, "accuracy": math.nan, "low": math.nan, "high": math.nan}
    if images.held_out is not None:
        score = evaluate(stepper.model, images.held_out, config, device=stepper.device)
        measured = {name: getattr(score, name) for name in measured}
    return {**row, **measured, "images_per_second": round(rate, 1), "seconds": 0.0}


def _position(folder: Path, stepper: Stepper, setting: dict[str, Any], resume: bool) -> Progress:
    """Where to begin: at the start, or where the training in the folder stands."""
    if not checkpoint.exists(folder):
        return Progress()
    record = checkpoint.read_record(folder)
    if not resume:
        raise VitscopeError(
            f"{folder} holds a training that has finished {record['progress']['epoch']} epochs; "
            "go on with --resume (resume=True), or give another --out"
        )
    changed = _changes(record["setting"], setting)
    if changed:
        raise VitscopeError(
            f"cannot go on with {folder}: {'; '.join(changed)}. Give the same, or another --out"
        )
    return checkpoint.load_state(folder, stepper.model, stepper.optimizer)


def _setting(
    name: str, model: nn.Module, images: Images, recipe: Recipe, fraction: float, seed: int
) -> dict[str, Any]:
    """What two trainings must have in common for one to go on with the other."""
    made = origin(model)
    setting = {
        "model": name,
        "arguments": dict(made.arguments) if made else {},
        "surgery": getattr(model, "vitscope_surgery", []),
        "data": images.name,
        "images": len(images.train),
        "fraction": fraction,
        "seed": seed,
        "recipe": recipe.to_dict(),
    }
    return json.loads(json.dumps(setting))


def _changes(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    changes = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            changes += _changes(before, after, f"{prefix}{key}.")
        elif before != after:
            changes.append(f"{prefix}{key} was {before} and is {after} now")
    return changes


def _diverged(error: TrainingDiverged, model: nn.Module, folder: Path, epoch: int) -> TrainingDiverged:
    kept = "no epoch was finished, so nothing is kept"
    if epoch > 0:
        load_run_weights(model, folder)
        kept = f"{folder} keeps the weights after epoch {epoch}"
    return TrainingDiverged(f"{error}; {kept}. Try a lower --lr, with another --out")


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in text)


def _say(text: str) -> None:
    print(f"\nvitscope: {text}", file=sys.stderr)
