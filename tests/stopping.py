"""A model that sends its own process a signal in the middle of a pass, and counts what it does after that."""

import os
import signal
from typing import Any

import torch
from torch import nn


class SignalInside:
    """A signal at the first module of pass `at`; `after` counts the modules that are called after it.

    Passes of fewer than `least` images do not count (anatomy shows two), and none in the other mode.
    """

    def __init__(
        self, model: nn.Module, at: int, number: int = signal.SIGINT, least: int = 1, training: bool = False
    ) -> None:
        self.passes, self.after, self.sent = 0, 0, False
        self.at, self._number, self._least, self._training = at, number, least, training
        self._model = model
        leaves = [module for module in model.modules() if not list(module.children())]
        self.handles = [model.register_forward_pre_hook(self._begin)]
        self.handles += [leaf.register_forward_pre_hook(self._within) for leaf in leaves]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def _begin(self, model: nn.Module, arguments: tuple[Any, ...]) -> None:
        if isinstance(arguments[0], torch.Tensor) and len(arguments[0]) >= self._least:
            self.passes += model.training == self._training

    def _within(self, *_: object) -> None:
        if self.sent:
            self.after += 1
        elif self.passes == self.at and self._model.training == self._training:
            self.sent = True
            os.kill(os.getpid(), self._number)
