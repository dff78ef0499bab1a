"""One epoch of training: batches in a seeded order, one optimiser step each, from any step on.

A step's loss is the mean over its effective batch. Every process takes its share of the batch and cuts it into
the parts that the recipe accumulates over; each image weighs 1 / batch, wherever it is computed.
"""

import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from timm.utils import ModelEmaV3
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.core.outputs import class_scores
from vitscope.core.peers import loader_worker
from vitscope.data import DataConfig
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import STEP, seed_all
from vitscope.tasks import Classification, Task
from vitscope.tasks.task import Inputs, Targets, cut, to_device, unhalved
from vitscope.training.checkpoint import Progress, load_whole
from vitscope.training.distill import both_tokens, distillation_loss, find_teacher, has_distillation_token
from vitscope.training.loading import timed
from vitscope.training.numerics import (
    Patience,
    Precision,
    TrainingDiverged,
    are_finite,
    gradient_norm,
    lay_out,
)
from vitscope.training.optimizer import build_optimizer, build_schedule, sharpness_ascent
from vitscope.training.parallel import any_process
from vitscope.training.sharding import Repeated, StochasticDepth, batches, micro_batches, share


class MicroBatch(NamedTuple):
    """What of a batch is computed at once."""

    inputs: Inputs  # mixed
    targets: Targets  # of each
    taught: Tensor | None  # what the teacher says, if there is one
    places: list[int]  # where in the whole batch they stand


class Stepper:
    """Holds what a step needs: model, optimiser, schedule, augmentation.

    Attributes:
        model: The plain module.
        running: What forward and backward go through: `wrap(model)`, compiled if the recipe says so.
        measured: What to evaluate and keep: the average of the weights if the recipe keeps one, else `model`.
        optimizer: timm's, as the recipe names it.
        steps: Steps per epoch.
        patience: Counts the steps that were not taken because loss or gradient were not finite.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        config: DataConfig,
        n_classes: int,
        recipe: Recipe,
        seed: int,
        device: torch.device,
        workers: int = 0,
        *,
        task: Task | None = None,
        teacher: nn.Module | None = None,
        wrap: Callable[[nn.Module], nn.Module] | None = None,
    ) -> None:
        self.task = task or Classification()
        self.task.check_recipe(recipe)
        self.recipe = recipe
        self.seed = seed
        self.device = device
        self.workers = workers
        self.n_images = len(data)
        self.n_classes = n_classes
        self.data = self.task.augmented(
            Repeated(data, recipe.repeats) if recipe.repeats > 1 else data, recipe, config, seed
        )
        self.teacher = find_teacher(recipe, teacher, config, n_classes, device)
        self.precision = Precision(recipe.amp, device)
        sharded = any(isinstance(parameter, DTensor) for parameter in model.parameters())
        if sharded and recipe.ema_decay is not None:
            raise VitscopeError(
                "ema_decay keeps a whole copy of the model; leave it out, or do without --shard"
            )
        self.model = model
        self.layout = lay_out(recipe.channels_last, model, device, sharded)
        self.ema = ModelEmaV3(model, recipe.ema_decay) if recipe.ema_decay is not None else None
        self.depth = None if recipe.compile else StochasticDepth(model)
        self.measured: nn.Module = self.ema.module if self.ema is not None else model
        self.running = wrap(model) if wrap is not None else model
        if recipe.compile:
            self.running = torch.compile(self.running)  # type: ignore[assignment]  # a module if given one
        self.steps = len(self._batches(epoch=0))
        self.optimizer = build_optimizer(model, recipe, device)
        self.schedule = build_schedule(self.optimizer, recipe, self.steps)
        self.patience = Patience(recipe.patience, self.data.data)

    def epoch(
        self, progress: Progress, interrupt: Interruptible | None = None
    ) -> Generator[tuple[int, float], None, None]:
        """Go on with the epoch that `progress` stands in, step by step, and keep `progress` up to date.

        Who goes through it may leave after any step, on every process after the same one, and closes it then.

        Args:
            progress: Where the training stands.
            interrupt: In a single process, a step is given up when this is asked to stop.

        Yields:
            After each step its number of images, and the epoch's mean loss so far.

        Raises:
            TrainingDiverged: As many steps in a row as the recipe's patience had no finite loss or gradient.
            Stopped: A step was given up: model and `progress` are as before it.
        """
        alone = interrupt is not None and distributed.world_size() == 1  # others would wait for this process
        can_stop = interrupt.at_once if interrupt is not None and alone else nullcontext
        self.running.train()
        self.data.epoch = progress.epoch
        todo = self._batches(progress.epoch)[progress.step :]
        rank, world = distributed.rank(), distributed.world_size()
        shares = [share(batch, rank, world) for batch in todo]
        loader = DataLoader(
            self.data,
            batch_sampler=[mine.images for mine in shares],
            num_workers=self.workers,
            collate_fn=self.task.collate,
            worker_init_fn=loader_worker,
            pin_memory=self.device.type == "cuda",
        )
        with both_tokens(self.model, self.teacher is not None):
            loaded = timed(loader, progress)
            for batch, mine in zip(todo, shares, strict=True):
                with can_stop():
                    inputs, targets = next(loaded)
                self._step(inputs, targets, batch, mine.counted, progress, can_stop)
                progress.step += 1
                yield len(batch), progress.loss_sum / progress.images if progress.images else math.nan
        if progress.images == 0:
            raise TrainingDiverged(f"no step of epoch {progress.epoch + 1} had a finite loss")

    def release(self) -> None:
        """To be called at the end: leaves nothing of this in the model."""
        if self.depth is not None:
            self.depth.release()

    def check_weights(self, progress: Progress) -> None:
        """Raise `TrainingDiverged` if a weight or its optimiser's state is not finite: before anything is written."""
        states = (value for state in self.optimizer.state.values() for value in state.values())
        learning = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        own = are_finite(learning) and are_finite(value for value in states if isinstance(value, Tensor))
        if any_process(not own):
            raise TrainingDiverged(
                f"a weight, or what the optimiser keeps of it, is no longer finite in epoch {progress.epoch + 1}, "
                f"after step {progress.step}"
            )

    def learning_rate(self) -> float:
        """The rate of the latest step (with layer-wise decay: of the uppermost layer)."""
        return max(float(group["lr"]) for group in self.optimizer.param_groups)

    def extra_tensors(self) -> dict[str, Tensor]:
        """What must survive beside model and optimiser: averaged weights, the scale of a float16 loss."""
        averaged = self.ema.module.state_dict() if self.ema is not None else {}
        return {
            **{f"ema.{name}": tensor for name, tensor in averaged.items()},
            **{f"scaler.{name}": tensor for name, tensor in self.precision.state().items()},
        }

    def load_extra_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `extra_tensors` gave."""
        averaged, scaler = (
            {name.removeprefix(kind): tensors[name] for name in tensors if name.startswith(kind)}
            for kind in ("ema.", "scaler.")
        )
        if self.ema is not None:
            load_whole(self.ema.module, averaged, "the average of the weights in the state")
        self.precision.load_state(scaler)

    def _batches(self, epoch: int) -> list[list[int]]:
        return batches(self.n_images, self.recipe.batch_size, self.seed, epoch, self.recipe.repeats)

    def _step(
        self,
        inputs: Inputs,
        targets: Targets,
        batch: list[int],
        counted: bool,
        progress: Progress,
        can_stop: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """One step, or none if the gradient is not finite; adds the loss of the effective batch to `progress`."""
        place = (STEP, self.seed, progress.epoch, progress.step)
        seed_all(*place)  # the same on every process: one draw mixes the whole batch
        inputs, targets = self.mixed(inputs, targets)
        rank, world = distributed.rank(), distributed.world_size()
        n_micro_batches = micro_batches(len(batch), self.recipe.accumulate, world)
        places = torch.tensor(share(list(range(len(batch))), rank, world).images)
        taken = [
            MicroBatch(x, y, self._taught(x), where.tolist())
            for x, y, where in zip(
                *(cut(part, n_micro_batches) for part in (inputs, targets, places)), strict=True
            )
        ]
        # each image weighs 1 / batch; dropout differs between processes
        asked = (taken, counted / len(batch), (*place, 1 + rank), len(batch))
        statistics = list(self.model.buffers())
        before = [torch.empty_like(buffer) for buffer in statistics]
        if statistics:
            torch._foreach_copy_(before, statistics)

        def restore_statistics() -> None:
            for buffer, kept in zip(statistics, before, strict=True):
                buffer.copy_(kept)

        self.optimizer.zero_grad(set_to_none=True)
        try:
            with can_stop():
                loss = self._gradient(*asked)
                rho = self.recipe.sam_rho
                if rho is not None and math.isfinite(length := float(gradient_norm(self.model))):
                    with sharpness_ascent(self.model, rho, length):
                        self._gradient(*asked)
        except Stopped:
            restore_statistics()
            raise
        scaler = self.precision.scaler
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        done = progress.epoch * self.steps + progress.step
        self.schedule.step_update(done)
        norm = gradient_norm(self.model)
        if self.patience.watch(loss, float(norm), scaler is not None, batch, progress):
            self._update(norm, done)
            progress.loss_sum += loss * len(batch)
            progress.images += len(batch)
        else:
            restore_statistics()  # a NaN would never leave a running mean
        if scaler is not None:
            scaler.update()

    def mixed(self, inputs: Inputs, targets: Targets) -> tuple[Inputs, Targets]:
        """A batch as the loss takes it, on the device; draws from torch's generator."""
        inputs, targets = (to_device(part, self.device, self.layout) for part in (inputs, targets))
        return self.task.mixed(inputs, targets, self.recipe, self.n_classes)

    def _gradient(self, taken: list[MicroBatch], weight: float, draws: tuple[int, ...], batch: int) -> float:
        """Add up the gradient of the effective batch's loss, and tell that loss; each image weighs `weight`."""
        seed_all(*draws)
        world = distributed.world_size()
        total = torch.zeros((), dtype=torch.float64)
        for number, (inputs, targets, taught, places) in enumerate(taken):
            last = number == len(taken) - 1
            if self.depth is not None:
                self.depth.place(places, batch, *draws[:-1], 0)  # the same in every process
            with nullcontext() if last or world == 1 else getattr(self.running, "no_sync", nullcontext)():
                own = [(*draws[:-1], place) for place in places]  # of every image, in whichever process
                with self.precision.autocast():
                    outputs = self.task.forward(self.running, inputs, targets, own)
                loss = self._losses(outputs, targets, taught).sum() * weight
                self.precision.backward(loss * world)  # the wrapper averages over processes
            total += loss.detach().double().cpu()
        if world > 1:
            distributed.all_reduce(total, group=distributed.cpu_group())
        return float(total)

    def _losses(self, outputs: Any, targets: Targets, taught: Tensor | None) -> Tensor:
        if taught is None:
            return self.task.losses(self.model, outputs, targets)
        if has_distillation_token(self.model) and isinstance(outputs, tuple):
            own, distilled = outputs
        else:
            own = distilled = class_scores(self.model, outputs, len(targets))
        return distillation_loss((unhalved(own), unhalved(distilled)), targets, taught, self.recipe)

    def _taught(self, inputs: Inputs) -> Tensor | None:
        if self.teacher is None:
            return None
        with self.precision.autocast():
            return self.teacher(inputs)

    def _update(self, norm: Tensor, done: int) -> None:
        limit = self.recipe.clip_norm
        if limit is not None and not float(norm) < limit:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), limit, norm)
        if self.precision.scaler is not None:
            self.precision.scaler.step(self.optimizer)
        else:
            self.optimizer.step()
        if self.ema is not None:
            self.ema.update(self.model, step=done + 1)
