"""A training under way: from where it stands to its end, with everything it leaves in its folder.

All processes go through this together. The main one writes, and shows; what one of them cannot do, none does.
"""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from torch import Tensor

from vitscope.core import distributed
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.core.tensors import kept_memory
from vitscope.models import save_model
from vitscope.models.checkpoints import read_weights
from vitscope.models.sources.run_folder import WEIGHTS, model_damage
from vitscope.training import checkpoint
from vitscope.training.disk import NamedCheckpoints, writing
from vitscope.training.evaluate import measure
from vitscope.training.loading import loading_explained
from vitscope.training.log import Bar, Metrics, Tracking
from vitscope.training.monitors import Monitors
from vitscope.training.parallel import any_process, collectively, gathered_state, share_buffers
from vitscope.training.resume import Start
from vitscope.training.setup import TrainingPlan
from vitscope.training.steps import Stepper, TrainingDiverged


class Session:
    """Trains from `start` to the end with `run`; `position.rows` then holds a row per epoch."""

    def __init__(
        self,
        plan: TrainingPlan,
        stepper: Stepper,
        start: Start,
        bar: Bar,
        tracking: Tracking,
        monitors: Monitors,
    ) -> None:
        self.plan, self.stepper = plan, stepper
        self.position, self.resumed = start.position, start.resumed
        self.bar, self.tracking, self.monitors = bar, tracking, monitors
        self.interrupt = Interruptible(patient=distributed.is_active())
        self.total = math.ceil(stepper.recipe.total_epochs)
        self._warmup_end = math.ceil(stepper.recipe.warmup_epochs * stepper.steps)
        done = self._epochs() if self.resumed else None
        self._kept = NamedCheckpoints(plan.folder, plan.options.checkpoint_every, done, plan.task.best)
        self._saved = self._place() if self.resumed else None
        self._keep_previous = not start.fell_back  # a damaged state is not worth keeping, the one before is
        self._metrics: Metrics | None = None
        self._mark = time.monotonic()

    def run(self) -> None:
        """Train to the end.

        Raises:
            KeyboardInterrupt: On Ctrl-C or SIGTERM in any process, once the state has been written.
            TrainingDiverged: Loss, gradient or weights are no longer finite.
            CannotWrite: The disk is full, or the folder not writable any more.
        """
        with self._writing():
            rows, more = self.position.rows, self.plan.task.columns
            self._metrics = Metrics(self.plan.folder, rows, more) if distributed.is_main() else None
            if not self.resumed:
                self._keep(["init"], self._weights())
        if not self.resumed:
            self._look(0)
        self._restore_model()
        with self.interrupt, kept_memory(self.stepper.device):
            while self.position.epoch < self.total:
                complete = self._train_epoch()
                if complete and not any_process(self.interrupt.asked):
                    self._end_epoch()
                asked = any_process(self.interrupt.asked)
                if asked and self.position.epoch < self.total:
                    self._stop(asked)

    def _restore_model(self) -> None:
        """Write anew from the state what is gone or damaged: the model; and what is older: the part of it to read.

        In the middle of an epoch the end of the next one does that.
        """
        if not self.position.epoch or self.position.step:
            return
        with self._writing():
            weights, plan = self._weights(), self.plan
            problem = model_damage(plan.folder) if distributed.is_main() else None
            if problem:
                print(f"vitscope: {problem}; written anew from the state", file=sys.stderr)
                save_model(self.stepper.model, plan.folder, plan.classes, plan.config, weights)
            if distributed.is_main() and self.resumed and self._keep_previous:  # the latest state is whole
                checkpoint.refresh_readable(plan.folder)

    def _end_epoch(self) -> None:
        """Measure the model and count the epoch as done; if asked to stop, keep the state after its last step."""
        try:
            row = self._measure()
            # of several processes none can leave a look alone: the others would wait for it
            alone = distributed.world_size() == 1
            with self.interrupt.at_once() if alone else self.interrupt.deferring():
                seen = self._look(self.position.epoch + 1)
        except Stopped as stopped:
            self.interrupt.asked = stopped.number  # a pass of a monitor takes the signal for itself
            self._save_state()
            return
        self._tick()
        row |= {"seconds": round(self.position.seconds, 2), "monitoring": round(self.monitors.share, 4)}
        self._finish_epoch(row)
        self.bar.row(row)
        self.tracking.row({**row, **seen})

    def _train_epoch(self) -> bool:
        """Go on with the epoch; whether it is complete."""
        self._tick()
        try:
            # a process that loads images may die at any time, also while a state is written
            with closing(self.stepper.epoch(self.position, self.interrupt)) as steps, loading_explained():
                for n_images, loss in steps:
                    if self._after_step(n_images, loss):
                        break
            return self.position.step == self.stepper.steps
        except Stopped:
            self._tick()
            if self._global_step():
                self.stepper.check_weights(self.position)
                self._save_state()
            return False
        except TrainingDiverged as error:
            with collectively():
                raise self._diverged(error) from error

    def _after_step(self, n_images: int, loss: float) -> bool:
        """Show and keep what a step has brought; whether somebody asks to stop."""
        self._tick(training=True)
        here, done, every = self.position, self._global_step(), self.plan.options.save_every
        self.bar.step(here.epoch, n_images, loss, here.waited / here.spent)
        stop = any_process(self.interrupt.asked)
        saves = stop or (every and done % every == 0)
        if saves or done == self._warmup_end or here.step == self.stepper.steps:
            self.stepper.check_weights(here)
        if done == self._warmup_end:
            with self._writing():
                self._keep(["warmup"], self._weights())
        if saves:
            self._save_state()
        self._tick()
        return bool(stop)

    def _measure(self) -> dict[str, Any]:
        """A row of `metrics.csv`; looks at the held-out images."""
        here, model, images = self.position, self.stepper.measured, self.plan.images
        task = self.plan.task
        measured = dict.fromkeys(("nll", "accuracy", "low", "high", *task.columns), math.nan)
        share_buffers(model)
        due = (here.epoch + 1) % self.plan.options.measure_every == 0 or here.epoch + 1 == self.total
        if images.held_out is not None and due:
            device, interrupt = self.stepper.device, self.interrupt
            config = self.plan.config
            found = measure(model, task, images.held_out, config, device=device, interrupt=interrupt)
            measured = {name: found[name] for name in measured}
        return {
            "epoch": here.epoch + 1,
            "lr": self.stepper.learning_rate(),
            "train_loss": here.loss_sum / here.images,
            **measured,
            "images_per_second": round(here.images / here.spent, 1),
            "waiting": round(here.waited / here.spent, 4),
            "broken": len(images.train.broken_names()),
        }

    def _look(self, epoch: int) -> dict[str, float]:
        with self._writing():
            seen = self.monitors.look(epoch)
        return seen

    def _finish_epoch(self, row: dict[str, Any]) -> None:
        """Write the model, its checkpoints, the row, and last of all the state that counts the epoch as done."""
        self.position.finish_epoch(row)
        with self._writing():
            weights, plan = self._weights(), self.plan
            if self._metrics is not None:
                save_model(self.stepper.model, plan.folder, plan.classes, plan.config, weights)
            self._keep(self._kept.names_for(self.position.rows), weights, row)
            if self._metrics is not None:
                self._kept.keep("last", weights, self.position.epoch, row, file=WEIGHTS)
                self._metrics.add(row)
        self._save_state()

    def _save_state(self) -> None:
        with self._writing():
            step = self.stepper
            share_buffers(step.model)
            checkpoint.save_state(
                self.plan.folder,
                step.model,
                step.optimizer,
                self.position,
                self.plan.setting,
                step.extra_tensors(),
                self._keep_previous,
            )
        self._keep_previous = True
        self._saved = self._place()

    def _keep(self, names: list[str], weights: dict[str, Tensor], row: dict[str, Any] | None = None) -> None:
        """Keep what was measured; where that is an average of the weights, these themselves as well."""
        averaged = names and self.stepper.measured is not self.stepper.model and self._global_step()
        raw = gathered_state(self.stepper.model.state_dict()) if averaged else None
        if not distributed.is_main():
            return
        for name in names:
            self._kept.keep(name, weights, self._epochs(), row)
            if raw is not None:
                self._kept.keep(f"{name}-raw", raw, self._epochs())

    def _weights(self) -> dict[str, Tensor]:
        share_buffers(self.stepper.measured)
        return gathered_state(self.stepper.measured.state_dict())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        saved = f"{checkpoint.TENSORS} there holds the state after {self._saved}" if self._saved else None
        with collectively(), writing(self.plan.folder, saved or "no state was written before"):
            yield

    def _diverged(self, error: TrainingDiverged) -> TrainingDiverged:
        kept = "no epoch was finished, so no weights are kept"
        if self.position.epoch:
            path = self.plan.folder / WEIGHTS
            checkpoint.load_whole(self.stepper.model, read_weights(path, self.plan.folder), str(path))
            kept = f"the last good weights, after epoch {self.position.epoch}, are in {path}"
        return TrainingDiverged(f"{error}; {kept}. Try a lower --lr, with another --out")

    def _stop(self, asked: int) -> None:
        if distributed.is_main():
            where = f"epoch {self.position.epoch + 1} of {self.total}, step {self.position.step}"
            print(f"\nvitscope: stopped in {where}; go on: the same command and --resume", file=sys.stderr)
        raise Stopped(asked)

    def _global_step(self) -> int:
        return self.position.epoch * self.stepper.steps + self.position.step

    def _epochs(self) -> float:
        return round(self._global_step() / self.stepper.steps, 6)

    def _place(self) -> str:
        epoch, step = self.position.epoch, self.position.step
        return f"epoch {epoch + 1}, step {step}" if step else f"epoch {epoch}"

    def _tick(self, training: bool = False) -> None:
        """Count the time since the last call, as a part of the epoch's steps or not."""
        now = time.monotonic()
        self.position.seconds += now - self._mark
        if training:
            self.position.spent += now - self._mark
        self._mark = now
