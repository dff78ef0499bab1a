"""A tiny vision transformer whose process can be told to die, or to wait, in the middle of its training or of an exam.

What is in the folder `FRAGILE` says when: the file `train` or `exam` holds the number of the pass in which it dies,
`wait` that of an exam in which it waits for its end. Every order is obeyed once.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

FRAGILE = "VITSCOPE_TEST_FRAGILE"
LEAST = 8  # images of a pass that counts: anatomy shows fewer


class FragileVit(VisionTransformer):
    """Counts its passes: those of training, and those of a model that was not trained in this process."""

    passes = 0

    def forward(self, x: Tensor, **kwargs: Any) -> Tensor:
        self.trained = getattr(self, "trained", False) or self.training
        if os.environ.get(FRAGILE) and len(x) >= LEAST and self.training == self.trained:
            self.passes += 1
            for name in ("train",) if self.training else ("exam", "wait"):
                order = Path(os.environ[FRAGILE], name)
                if order.exists() and int(order.read_text()) == self.passes:
                    obey(order)
        return super().forward(x, **kwargs)


def obey(order: Path) -> None:
    order.rename(order.with_suffix(".obeyed"))
    if order.name != "wait":
        os.kill(os.getpid(), signal.SIGKILL)
    order.with_suffix(".pid").write_text(f"{os.getpid()}\n")
    while True:
        time.sleep(0.1)


def fragile_vit(num_classes: int = 10, img_size: int = 32, drop_path_rate: float = 0.0) -> FragileVit:
    return FragileVit(
        img_size=img_size,
        patch_size=8,
        embed_dim=16,
        depth=2,
        num_heads=2,
        num_classes=num_classes,
        drop_path_rate=drop_path_rate,
    )
