"""The training loop.

    vitscope train vit_mini --data fashion --recipe mini --out runs/a
    vitscope train vit_mini --data fashion --recipe mini --out runs/a --resume    # after an interruption
    torchrun --nproc-per-node 4 -m vitscope.cli.app train vit_mini --data fashion --out runs/a

A run folder always holds a usable model (of the last finished epoch) and the state to go on from. A training
that was interrupted and resumed ends with the same weights as one that was not, because every random draw is
a function of the seed and of the place in the training (see `seeding`).
"""

import dataclasses
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitscope.core import distributed
from vitscope.core.arguments import Count, checked
from vitscope.core.errors import BadArgument
from vitscope.core.peers import explained
from vitscope.data import ImageData
from vitscope.models import create_model, name_of
from vitscope.models.create import check_name
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import preserved, seed_all
from vitscope.results import Run
from vitscope.training import parallel
from vitscope.training.broken_images import Readable, without_broken
from vitscope.training.checkpoint import Progress
from vitscope.training.collective import together
from vitscope.training.disk import bytes_needed, check_room, check_writable
from vitscope.training.log import Bar
from vitscope.training.monitors import Monitors, find_monitors
from vitscope.training.named_checkpoints import checkpoints_expected
from vitscope.training.recipe_differences import describe_recipe
from vitscope.training.resume import describe_setting, find_position
from vitscope.training.session import Plan, Session
from vitscope.training.setup import Images, find_images, find_model, settle
from vitscope.training.steps import Stepper
from vitscope.training.tracking import Tracker, Tracking


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
    waiting: float
    seconds: float


@checked
def train(
    model: str | os.PathLike[str] | nn.Module,
    data: Any,
    recipe: str | os.PathLike[str] | Recipe = "mini",
    out: str | os.PathLike[str] | None = None,
    *,
    held_out: Any = None,
    fraction: float = 1.0,
    img_size: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    changes: Mapping[str, Any] | None = None,
    teacher: str | os.PathLike[str] | nn.Module | None = None,
    resume: bool = False,
    force: bool = False,
    save_every: Count | None = None,
    checkpoint_every: Count | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
    shard: bool = False,
    sync_bn: bool = False,
    timeout_minutes: float = 30.0,
    track: Tracker | None = None,
    monitor: Sequence[str] = (),
    monitor_every: Count | None = None,
    progress: bool = True,
    trust_code: bool = False,
) -> Trained:
    """Train a model and leave it in a run folder, from which `create_model` makes it again.

    Under `torchrun` every process calls this; they share each batch, and the main one writes and shows.

    Args:
        model: A name that `create_model` knows (a new model with a head for the data), a run folder, whose
            model is trained further, or a module, which is trained in place.
        data: A spec such as "fashion", what `load_data` gives, or a data set of (PIL image or uint8 array,
            label).
        recipe: A name of `RECIPES`, a YAML file, or a `Recipe`.
        out: The run folder; default `runs/<model>-<data>`.
        held_out: Images to measure on after each epoch; default: the test split of `data`.
        fraction: Class-stratified, seeded part of the training images to use.
        img_size: Side of the images, for a model given by name.
        epochs: Instead of the recipe's.
        batch_size: Instead of the recipe's; images per step over all processes.
        lr: Instead of the recipe's.
        changes: Any other choices instead of the recipe's, by the names of its fields.
        teacher: What a recipe that distils learns from: a model, a run folder, or a name with weights.
        resume: Go on with what is in `out`; starts from the beginning if nothing is there yet.
        force: Go on even if choices are different; an epoch that was under way is begun anew.
        save_every: Steps between two writings of the state, which is also written after every epoch.
        checkpoint_every: Epochs between two checkpoints to keep besides init, warmup, best and last.
        seed: Decides the weights at the start, the order of the images, every augmentation.
        device: Default: CUDA if there is any, else the CPU.
        workers: Processes that load and augment images; default: one for each core but one, none for a few
            images. The result does not depend on it.
        skip_broken: Count and pass over images that cannot be read, instead of stopping.
        shard: Spread the model over the processes (FSDP) instead of giving each a copy (DDP).
        sync_bn: Batch statistics over all processes.
        timeout_minutes: How long to wait for a process that does not answer.
        track: Also send the rows of `metrics.csv` to a tracker.
        monitor: Exams that share one pass, and "hessian", to look at the model with while it trains.
        monitor_every: Epochs between two looks; default: as often as 5 % of the time allow.
        progress: Show the recipe and a bar on stderr.
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).

    Raises:
        TrainingDiverged: The loss became infinite or not a number. The run folder, and a model that was
            passed in, hold the weights of the last finished epoch.
        KeyboardInterrupt: On Ctrl-C or SIGTERM, once the state has been written.
    """
    with distributed.process_group(timeout_minutes), explained(), preserved():
        where = parallel.device_of_process(device)
        with together():
            _refuse_without_effect(resume, force, monitor, monitor_every)
            find_monitors(monitor)
            if isinstance(teacher, str | os.PathLike):
                check_name(teacher, trust_code)
            seed_all(seed)
            given = {"epochs": epochs, "batch_size": batch_size, "lr": lr, **(changes or {})}
            choices = get_recipe(recipe, **given)
            images, not_held_out = _readable(
                find_images(data, held_out, fraction, seed, skip_broken), skip_broken
            )
            net = find_model(model, images.classes, img_size, choices, trust_code).to(where)
            config, classes = settle(net, images.classes, where)
            taught = _find_teacher(teacher, trust_code)
            folder = (
                Path(out) if out is not None else Path("runs") / _file_name(f"{name_of(net)}-{images.name}")
            )
            if folder.exists() and not folder.is_dir():
                raise BadArgument(
                    f"{folder} is a file; expected a folder to write the run into: --out runs/NAME"
                )
            asked = name_of(net) if isinstance(model, nn.Module) else os.fspath(model)
            setting = describe_setting(asked, net, images, choices, fraction, seed, teacher)
            facts = {
                "name": name_of(net),
                "parameters": sum(parameter.numel() for parameter in net.parameters()),
                "input_size": config.input_size,
            }
        with together():
            if sync_bn:
                net = parallel.synchronise_batch_norm(net, where)
            if shard:
                parallel.shard(net, where)
                choices = dataclasses.replace(choices, channels_last="never")  # FSDP takes no other layout
            wrap = None if shard else parallel.replicate(net, config, where)
            stepper = Stepper(
                net,
                images.train,
                config,
                len(classes),
                choices,
                seed,
                where,
                _workers(workers, images.train),
                teacher=taught,
                wrap=wrap,
            )
        with together():
            start = find_position(folder, stepper, setting, resume, force)
            position = start.position
            if distributed.is_main():
                check_writable(folder)
                kept = checkpoints_expected(choices.epochs, checkpoint_every)
                check_room(folder, bytes_needed(net, stepper.extra_tensors(), kept))
        if progress and distributed.is_main():
            print(
                describe_recipe(choices, None, distributed.world_size(), len(images.train), net),
                file=sys.stderr,
            )
            for difference in start.changed:
                print(f"warning: going on although {difference}", file=sys.stderr)
        if start.missed and distributed.is_main() and (progress or "did you mean" in start.missed):
            print(f"vitscope: {start.missed}", file=sys.stderr)
        if start.fell_back and distributed.is_main():
            print(
                f"vitscope: {start.fell_back}. Going on from the state before it, after epoch {position.epoch}"
                + (f" and step {position.step} of the next" if position.step else ""),
                file=sys.stderr,
            )
        with together():
            probe = images.held_out if images.held_out is not None else images.train.data
            epochs_in_all = math.ceil(choices.total_epochs)
            monitors = Monitors(
                monitor, monitor_every, probe, stepper, folder, position, epochs_in_all, start.resumed
            )
        plan = Plan(folder, config, classes, setting, save_every, checkpoint_every)
        with (
            _recorded(folder, setting, seed, where, facts) as run,
            _tracked(track, plan, position) as tracking,
            _bar(stepper, position, progress) as bar,
            ExitStack() as at_the_end,
        ):
            at_the_end.callback(stepper.release)
            if not_held_out and run is not None:
                run.note(broken_held_out=not_held_out)
            Session(plan, stepper, images, start, bar, tracking, monitors).run()
            _report_broken(images.train, run)
    last = position.rows[-1]
    names = {field.name for field in dataclasses.fields(Trained)} - {"path", "epochs"}
    return Trained(folder, position.epoch, **{name: last.get(name, math.nan) for name in names})


def _readable(images: Images, skip_broken: bool) -> tuple[Images, list[str]]:
    """The images, of which the broken ones are named, or passed over; and the held-out ones that are left out."""
    held_out = images.held_out
    names: list[str] = []
    if skip_broken and isinstance(held_out, ImageData):
        held_out, names = without_broken(held_out)
        if names and distributed.is_main():
            print(f"vitscope: {len(names)} held-out images are broken: {_few(names)}", file=sys.stderr)
    return dataclasses.replace(images, train=Readable(images.train, skip_broken), held_out=held_out), names


def _refuse_without_effect(
    resume: bool, force: bool, monitor: Sequence[str], monitor_every: int | None
) -> None:
    if force and not resume:
        raise BadArgument(
            "force (--force) is about going on with a training; add resume (--resume), or leave it out"
        )
    if monitor_every is not None and not monitor:
        raise BadArgument(
            "monitor_every (--monitor-every) is about looking at the model while it trains; say with which exams: "
            "monitor (--monitor variance), or leave it out"
        )


def _workers(asked: int | None, data: Readable) -> int:
    if asked is not None:
        return asked
    return parallel.loader_processes(len(data), portable=isinstance(data.data, ImageData))


def _find_teacher(teacher: str | os.PathLike[str] | nn.Module | None, trust_code: bool) -> nn.Module | None:
    if teacher is None or isinstance(teacher, nn.Module):
        return teacher
    return create_model(teacher, pretrained=None, trust_code=trust_code)


@contextmanager
def _recorded(
    folder: Path, setting: dict[str, Any], seed: int, device: torch.device, model: dict[str, Any]
) -> Iterator[Run | None]:
    """The run, begun and finished by the main process; None in the others."""
    run = None
    with together():
        if distributed.is_main():
            run = Run.start(folder, options=setting, seed=seed, device=str(device), model=model)
    try:
        yield run
    except BaseException as error:
        if run is not None:
            with suppress(OSError):  # a full disk must not hide what happened
                run.__exit__(type(error), error, error.__traceback__)
        raise
    if run is not None:
        run.finish()


def _tracked(name: Tracker | None, plan: Plan, position: Progress) -> Tracking:
    with together():
        used = name if distributed.is_main() else None
        tracking = Tracking(used, plan.folder, plan.setting, position.epoch)
    return tracking


def _bar(stepper: Stepper, position: Progress, shown: bool) -> Bar:
    epochs = math.ceil(stepper.recipe.total_epochs)
    done = position.epoch * stepper.n_images + position.images
    return Bar(epochs, stepper.n_images, done, shown and distributed.is_main())


def _report_broken(data: Readable, run: Run | None) -> None:
    names = data.broken_names()
    if names and run is not None:
        run.note(broken=names)
        print(f"vitscope: {len(names)} images were broken and passed over: {_few(names)}", file=sys.stderr)


def _few(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in text)
