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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from torch import nn

from vitscope.core import distributed
from vitscope.core.arguments import FieldsOf, checked
from vitscope.core.errors import BadArgument, warn
from vitscope.core.interface import shown_classes
from vitscope.core.peers import network_errors_explained
from vitscope.data import ImageData
from vitscope.data.broken_images import few
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import random_state_preserved
from vitscope.results import Run
from vitscope.training import parallel
from vitscope.training.checkpoint import Progress
from vitscope.training.disk import bytes_needed, check_room, check_writable, checkpoints_expected
from vitscope.training.log import Bar, Tracking
from vitscope.training.monitors import Monitors, find_monitors
from vitscope.training.parallel import collectively
from vitscope.training.recipe_differences import describe_recipe
from vitscope.training.resume import Start, find_position
from vitscope.training.session import Session
from vitscope.training.setup import TrainingPlan, TrainOptions, make_plan
from vitscope.training.steps import Stepper


@dataclass(frozen=True)
class Trained:
    """A finished training: its folder and the last row of its `metrics.csv` (NaN without held-out images).

    `scores` holds what belongs to its task, such as the mIoU of a segmentation, `words` says how good it is, and
    `held_out` on how many images.
    """

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
    scores: Mapping[str, float] = field(default_factory=dict)
    words: str = ""
    held_out: int = 0


@checked
def train(
    model: str | os.PathLike[str] | nn.Module,
    data: Any,
    recipe: str | os.PathLike[str] | Recipe | None = None,
    out: str | os.PathLike[str] | None = None,
    options: TrainOptions | None = None,
    **changes: Annotated[Any, FieldsOf(TrainOptions)],
) -> Trained:
    """Train a model and leave it in a run folder, from which `create_model` makes it again.

    Under `torchrun` every process calls this; they share each batch, and the main one writes and shows.

    Args:
        model: A name that `create_model` knows (a new model with a head for the data), a run folder, whose
            model is trained further, or a module, which is trained in place.
        data: A spec such as "fashion", what `load_data` gives, or a data set of (PIL image or uint8 array,
            label).
        recipe: A name of `RECIPES`, a YAML file, or a `Recipe`; default: that of the task, "mini" for labels.
        out: The run folder; default `runs/<model>-<data>`.
        options: Everything else; see `TrainOptions`.
        **changes: Fields of `TrainOptions` by name, instead of those of `options`: epochs=1, resume=True ...

    Raises:
        TrainingDiverged: The loss became infinite or not a number. The run folder, and a model that was
            passed in, hold the weights of the last finished epoch.
        KeyboardInterrupt: On Ctrl-C or SIGTERM, once the state has been written.
    """
    options = dataclasses.replace(options or TrainOptions(), **changes)
    with (
        distributed.process_group(options.timeout_minutes),
        network_errors_explained(),
        random_state_preserved(),
    ):
        with collectively():
            _refuse_without_effect(options)
            find_monitors(options.monitor)
            plan = make_plan(model, data, recipe, out, options)
        with collectively():
            stepper = _make_stepper(plan)
        with collectively():
            start = _find_start(plan, stepper)
        if distributed.is_main():
            _announce(plan, stepper, start)
        with collectively():
            monitors = Monitors(plan, stepper, start)
        position = start.position
        with (
            shown_classes(plan.model, len(plan.images.classes or ())),
            _recorded(plan),
            _tracking(plan, position) as tracking,
            _bar(plan, stepper, position) as bar,
        ):
            try:
                Session(plan, stepper, start, bar, tracking, monitors).run()
            finally:
                stepper.release()
    last = position.rows[-1]
    names = {one.name for one in dataclasses.fields(Trained)} - _TOLD_APART
    return Trained(
        plan.folder,
        position.epoch,
        **{name: last.get(name, math.nan) for name in names},
        scores={name: last.get(name, math.nan) for name in plan.task.columns},
        words=plan.task.words(last),
        held_out=0 if plan.images.held_out is None else len(plan.images.held_out),
    )


_TOLD_APART = {"path", "epochs", "scores", "words", "held_out"}  # are in no row


def _make_stepper(plan: TrainingPlan) -> Stepper:
    """What takes the steps: the model spread over the processes as the options say."""
    options, net, recipe, data = plan.options, plan.model, plan.recipe, plan.images.train
    if options.sync_bn:
        net = parallel.synchronise_batch_norm(net, plan.device)
    if options.shard:
        parallel.shard(net, plan.device)
        recipe = dataclasses.replace(recipe, channels_last="never")  # FSDP takes no other layout
    workers = options.workers
    if workers is None:
        workers = parallel.loader_processes(len(data), portable=isinstance(data.data, ImageData))
    return Stepper(
        net,
        data,
        plan.config,
        len(plan.classes),
        recipe,
        options.seed,
        plan.device,
        workers,
        task=plan.task,
        teacher=plan.teacher,
        wrap=None if options.shard else parallel.replicate(net, plan.config, plan.device),
    )


def _find_start(plan: TrainingPlan, stepper: Stepper) -> Start:
    """Where to begin; refuses a folder that cannot be written or has no room."""
    start = find_position(plan, stepper)
    if distributed.is_main():
        check_writable(plan.folder)
        kept = checkpoints_expected(plan.recipe.epochs, plan.options.checkpoint_every)
        check_room(plan.folder, bytes_needed(stepper.model, stepper.extra_tensors(), kept))
    return start


def _announce(plan: TrainingPlan, stepper: Stepper, start: Start) -> None:
    """Say on stderr what is going to be done, and what is not as expected."""
    shown, position, data = plan.options.progress, start.position, plan.images.train
    lines = []
    if shown:
        recipe = describe_recipe(stepper.recipe, None, distributed.world_size(), len(data), stepper.model)
        lines += [str(recipe), *(f"warning: going on although {difference}" for difference in start.changed)]
    if start.missed and (shown or "did you mean" in start.missed):
        lines.append(f"vitscope: {start.missed}")
    if start.fell_back:
        within = f" and step {position.step} of the next" if position.step else ""
        lines.append(
            f"vitscope: {start.fell_back}. Going on from the state before it, after epoch {position.epoch}{within}"
        )
    for line in lines:
        print(line, file=sys.stderr)
    if plan.images.held_out is None:
        warn(
            "no images are held out, so that accuracy and loss are not measured (nan); give some: "
            "train(..., held_out=DATASET)"
        )


@contextmanager
def _recorded(plan: TrainingPlan) -> Iterator[None]:
    """The main process begins and finishes the record of the run, with the images that were broken."""
    run, images = None, plan.images
    with collectively():
        if distributed.is_main():
            about: dict[str, Any] = {"seed": plan.options.seed, "device": str(plan.device)}
            run = Run.start(plan.folder, options=plan.setting, model=plan.facts, **about)
    try:
        if images.not_held_out and run is not None:
            run.note(broken_held_out=images.not_held_out)
        yield
        broken = images.train.broken_names()
        if broken and run is not None:
            run.note(broken=broken)
            print(
                f"vitscope: {len(broken)} images were broken and passed over: {few(broken)}", file=sys.stderr
            )
    except BaseException as error:
        if run is not None:
            with suppress(OSError):  # a full disk must not hide what happened
                run.__exit__(type(error), error, error.__traceback__)
        raise
    if run is not None:
        run.finish()


def _tracking(plan: TrainingPlan, position: Progress) -> Tracking:
    with collectively():
        used = plan.options.track if distributed.is_main() else None
        tracking = Tracking(used, plan.folder, plan.setting, position.epoch)
    return tracking


def _bar(plan: TrainingPlan, stepper: Stepper, position: Progress) -> Bar:
    done = position.epoch * stepper.n_images + position.images
    epochs = math.ceil(plan.recipe.total_epochs)
    shown = plan.options.progress and distributed.is_main()
    return Bar(epochs, stepper.n_images, done, shown, plan.task.words)


def _refuse_without_effect(options: TrainOptions) -> None:
    if options.force and not options.resume:
        raise BadArgument(
            "force (--force) is about going on with a training; add resume (--resume), or leave it out"
        )
    if options.monitor_every is not None and not options.monitor:
        raise BadArgument(
            "monitor_every (--monitor-every) is about looking at the model while it trains; say with which exams: "
            "monitor (--monitor variance), or leave it out"
        )
