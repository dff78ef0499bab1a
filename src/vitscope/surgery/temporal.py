"""Temporal smoothing (VQ-BNN): on a stream, average the prediction with those of the last frames.

    p_t = sum_{a=0..min(K, t)} w_a q_{t-a},    w_a = exp(-rate * a) / sum_b exp(-rate * b)

q_t is what the model says of frame t alone, K the number of previous frames; the newest weighs most. Predictions
that are already there are used again, so a frame costs one forward pass. What comes out are logarithms of
probabilities, which softmax and cross-entropy take like logits.
"""

from typing import Any

import torch
from torch import Tensor, nn

from vitscope.core.arguments import NotNegative, checked
from vitscope.core.errors import VitscopeError
from vitscope.core.outputs import Place, scores_at, with_class_scores
from vitscope.surgery.tools.choose import Example, Frames
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.predictions import (
    Averaging,
    averages_over,
    log_average,
    log_probabilities,
    place_of_answers,
)
from vitscope.surgery.tools.record import CannotOperate, Done, operation


class StreamChanged(VitscopeError):
    """A frame does not fit the frames before it."""


@checked
def smooth_stream(probabilities: Tensor, rate: NotNegative = 0.8, previous: Frames = 5) -> Tensor:
    """The smoothed predictions of a whole stream (T, ...), frames first; what `temporal` does one frame at a time."""
    frames = len(probabilities)
    total = torch.zeros_like(probabilities)
    weight = torch.zeros(frames, dtype=probabilities.dtype, device=probabilities.device)
    for age in range(min(previous + 1, frames)):
        importance = torch.tensor(-rate * age, dtype=probabilities.dtype).exp().item()
        total[age:] += importance * probabilities[: frames - age]
        weight[age:] += importance
    return total / weight.view(-1, *(1 for _ in probabilities.shape[1:]))


class TemporalSmoothing(Averaging):
    """Around a model that is called with one frame after the other; a batch is several streams side by side.

    The frames seen are no part of the model's state: they are neither saved nor loaded. `scores` is where the class
    scores are in what the model returns.
    """

    over = "frames"
    ages: Tensor
    history: Tensor  # (previous, N, classes, ...), logarithms, the newest first
    seen: Tensor  # how many frames of this stream

    def __init__(self, rate: float, previous: int, scores: Place | None = None) -> None:
        super().__init__()
        self.rate, self.previous, self.scores = rate, previous, scores
        self.register_buffer("ages", torch.arange(previous + 1), persistent=False)
        self.register_buffer("history", torch.empty(0), persistent=False)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long), persistent=False)
        self.streaming = False

    def forward(self, run: Any, *args: Any, **kwargs: Any) -> Any:
        """The smoothed prediction of this frame; in training what the model says, and nothing is remembered."""
        output = run(*args, **kwargs)
        if self.training:
            return output
        logits = scores_at(output, self.scores)
        now = log_probabilities(logits)
        self._make_room(now)
        frames = torch.cat((now.unsqueeze(0), self.history))
        log_weights = self.ages.to(now.dtype).mul(-self.rate)
        log_weights = log_weights.masked_fill(self.ages > self.seen, float("-inf"))
        smoothed = log_average(frames, log_weights.log_softmax(0))
        with torch.no_grad():
            self.history.copy_(frames[:-1])
            self.seen.add_(1)
        return with_class_scores(output, logits, smoothed.to(logits.dtype))

    def reset(self) -> None:
        """The next frame is the first of a new stream."""
        self.streaming = False
        self.seen.zero_()
        self.history.zero_()  # even without weight a number that is not finite would count

    def set_aside(self) -> tuple[Tensor, Tensor, bool]:
        """Begin a new stream and hand out the one that was going on, for whoever runs the model in between."""
        stream = self.history, self.seen, self.streaming
        self.history, self.seen = torch.zeros_like(self.history), torch.zeros_like(self.seen)
        self.streaming = False
        return stream

    def put_back(self, stream: tuple[Tensor, Tensor, bool]) -> None:
        """Go on with a stream that was set aside."""
        self.history, self.seen, self.streaming = stream

    def _make_room(self, now: Tensor) -> None:
        """A history of this shape; what stands in it at first has no weight."""
        shape, held = (self.previous, *now.shape), self.history
        if (held.shape, held.dtype, held.device) == (shape, now.dtype, now.device):
            self.streaming = True
            return
        if self.streaming:
            before, here = ("x".join(map(str, s)) for s in (self.history.shape[1:], now.shape))
            raise StreamChanged(
                f"this frame's prediction is {here}, that of the frames before it {before}; "
                "if a new stream begins: vs.surgery.reset(model)"
            )
        if torch.compiler.is_exporting():
            raise StreamChanged(
                "to export a stream's model, show it a batch like those to come: model(images); vs.surgery.reset(model)"
            )
        with torch.inference_mode(False):  # so that later frames may come with or without it
            self.history = torch.zeros(shape, dtype=now.dtype, device=now.device)
        self.streaming = True

    def extra_repr(self) -> str:
        """Rate and memory."""
        return f"rate={self.rate:g}, previous={self.previous}"


@operation
def temporal(
    model: nn.Module, rate: NotNegative = 0.8, previous: Frames = 5, *, example: Example = None
) -> Done:
    """Let a model average over the frames of a stream whenever it is called in evaluation mode.

    Between two streams: `vs.surgery.reset(model)`.

    Args:
        model: Is changed in place; its output is (N, classes) or (N, classes, H, W).
        rate: A frame of age a weighs exp(-rate * a).
        previous: How many frames before the current one take part.
        example: As for `vs.anatomy`.
    """
    if "frames" in averages_over(model):
        raise CannotOperate(
            f"this {type(model).__name__} averages over frames already; to change how do temporal once, with another "
            "rate= or previous=, on the model without it (in Python vs.surgery.undo(model))"
        )
    step = TemporalSmoothing(float(rate), previous, place_of_answers(model, example))
    path = graft(model, "", step, "temporal", "around")
    # parallel evaluation runs other streams in other processes: nobody may copy his history over theirs
    theirs = getattr(model, "_ddp_params_and_buffers_to_ignore", ())
    model._ddp_params_and_buffers_to_ignore = [*theirs, f"{path}.history", f"{path}.seen"]  # type: ignore[assignment]
    return Done({"rate": float(rate), "previous": previous}, [path], [path])


@checked
def reset(model: nn.Module) -> nn.Module:
    """Forget the frames seen so far: the next one begins a new stream."""
    found = [module for module in model.modules() if isinstance(module, TemporalSmoothing)]
    if not found:
        raise CannotOperate(
            f"this {type(model).__name__} remembers no frames; first: vs.surgery.temporal(model)"
        )
    for module in found:
        module.reset()
    return model
