"""Every exam on one small model that returns the same class scores in many forms."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from transformers.modeling_outputs import ImageClassifierOutput

from vitscope import exams
from vitscope.data import FrameData
from vitscope.data.images import Indices
from vitscope.data.task_data import NO_CLASS, TaskData
from vitscope.engine.exam import EXAMS
from vitscope.results import Result

WIDTH, AUXILIARY, CLASSES, IMAGES = 16, 7, 10, 8
STREAMING = [name for name, exam in EXAMS.items() if isinstance(exam, type)]
CLOCK = ("throughput", "seconds")  # quantities that no two runs have alike
OF_WEIGHTS = ["cb_scale", "trajectory"]  # they never call the model
OF_TASKS = {name: exam.task for name, exam in EXAMS.items() if isinstance(exam, type) and exam.task}

Form = Callable[[Tensor, Tensor], Any]  # from features and class scores to what a model returns
FORMS: dict[str, Form] = {
    "tensor": lambda features, scores: scores,
    "dict": lambda features, scores: {"aux": features[:, :AUXILIARY], "logits": scores},
    "tuple": lambda features, scores: (features, scores),
    "output": lambda features, scores: ImageClassifierOutput(logits=scores),
}


class SmallViT(VisionTransformer):
    """For 32-pixel images; does not say how many classes it knows."""

    def __init__(self, form: Form = FORMS["tensor"], depth: int = 1) -> None:
        super().__init__(
            img_size=32,
            patch_size=8,
            num_classes=CLASSES,
            embed_dim=WIDTH,
            depth=depth,
            num_heads=2,
            mlp_ratio=2,
        )
        del self.num_classes
        self.form = form
        self.pretrained_cfg = {
            "input_size": (3, 32, 32),
            "mean": (0.5,) * 3,
            "std": (0.5,) * 3,
            "crop_pct": 1.0,
        }

    def forward(self, images: Tensor) -> Any:
        features = self.forward_head(self.forward_features(images), pre_logits=True)
        return self.form(features, self.head(features))

    def __repr__(self) -> str:
        return "SmallViT()"


def small_vit(form: Form = FORMS["tensor"], depth: int = 1) -> SmallViT:
    torch.manual_seed(0)
    return SmallViT(form, depth).eval()


def images(count: int = IMAGES) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shown = torch.randint(0, 256, (count, 3, 32, 32), generator=generator).float() / 127.5 - 1
    return shown, torch.arange(count) % CLASSES


def frames(sequences: int = 2) -> FrameData:
    lengths = [3 + i % 3 for i in range(sequences)]
    count = sum(lengths)
    pictures = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return FrameData("frames", "test", ("a", "b", "c"), np.arange(count) % 3, lengths, images=pictures)


class SmallSegmenter(nn.Module):
    """Three classes for every second pixel."""

    vitscope_task = "segmentation"

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 3, 3, 2, 1)
        self.pretrained_cfg = {
            "input_size": (3, 32, 32),
            "mean": (0.5,) * 3,
            "std": (0.5,) * 3,
            "crop_pct": 1.0,
        }

    def forward(self, images: Tensor) -> Tensor:
        return 2 * self.conv(images)


class Masks:
    """Ten pictures again and again, with masks in which some pixels have no class."""

    parallel = False

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def picture(self, index: int) -> Image.Image:
        draw = np.random.default_rng(index % 10)
        return Image.fromarray(draw.integers(0, 256, (32, 32, 3), dtype=np.uint8))

    def target(self, index: int) -> np.ndarray:
        draw = np.random.default_rng(100 + index % 10)
        mask = np.repeat(np.repeat(draw.integers(0, 3, (8, 4)), 4, 0), 8, 1).astype(np.int16)
        mask[: index % 10] = NO_CLASS
        return mask

    def name(self, index: int) -> str:
        return f"picture {index}"

    def check(self, index: int) -> None:
        pass

    def digest(self, places: Indices) -> bytes:
        return places.tobytes()


def masked(count: int = 10) -> TaskData:
    return TaskData("segmentation", "masks:small", "test", ("sand", "coral", "weed"), Masks(count))


def with_little_work(name: str) -> Callable[..., Result]:
    """One exam as a function of model, data and batch size."""
    exam = EXAMS[name]
    if isinstance(exam, type):
        return lambda model, data, **said: exams.examine(model, data, [exam], **said)[name]
    return partial(exam.options or exam.run, **OPTIONS.get(name, {}))


def _density(model: nn.Module, data: Any, **said: Any) -> Result:
    return exams.hessian_density(model, data, batch_size=4, batches=1, recipe=None, steps=2, **said)


def _line(model: nn.Module, data: Any, **said: Any) -> Result:
    return exams.landscape_line(model, model, data, points=2, limit=4, batch_size=4, recipe=None, **said)


OPTIONS: dict[str, dict[str, Any]] = {
    "uncertainty": {"passes": 2},
    "covariance": {"draws": 16},
    "corruption": {"types": ("brightness", "shot_noise"), "severities": (1,), "workers": 0, "cache": False},
    "noise": {"strengths": (10.0,), "draws": 1},
    "blur": {"strengths": (1.0,)},
    "occlusion": {"shares": (0.5,)},
    "adversarial": {"strengths": (4.0,), "steps": 2},
    "shape_bias": {"cutoffs": (0.2,)},
    "passes": {"passes": (2,)},
    "hessian": {"k": 2, "params": "blocks.0.norm1", "tol": 1e-3, "batches": 2, "recipe": None},
    "landscape": {"points": 3, "recipe": None, "memory_format": "contiguous"},
}
RUNS: dict[str, Callable[..., Result]] = {
    **{name: partial(with_little_work(name), batch_size=4) for name in EXAMS if name not in OF_TASKS},
    **{name: partial(getattr(exams, name), batch_size=4) for name in STREAMING if name not in OF_TASKS},
    "hessian_density": _density,
    "landscape_line": _line,
}


def run(exam: str, model: nn.Module, data: Any = None, **said: Any) -> pd.DataFrame:
    """The table of one exam with as little work as it takes, without what a clock says."""
    data = (frames() if exam == "temporal" else images()) if data is None else data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = RUNS[exam](model, data, **said).table()
    return table[~table["quantity"].isin(CLOCK)].reset_index(drop=True)
