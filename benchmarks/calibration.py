"""Accuracy, NLL, Brier score and calibration of many predictions, beside torchmetrics, in CPU time inside one process.

    python benchmarks/calibration.py [--rounds 3] [--images 20000]

Both see the same logits in batches of 500, 10 and 1,000 classes. torchmetrics gives accuracy, top-5 and calibration
error as numbers; the exam gives these, NLL, Brier score, the adaptive error and all classes, each with an interval from
bootstrap replicates, which is most of its work. The other ratio is the one that users feel: over a forward pass of a
small model.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from ratios import measured
from torch import Tensor, nn

from vitscope.engine.one_pass import examine
from vitscope.exams import EXAMS
from vitscope.models import create_model

BATCH = 500


class Given(nn.Module):
    """Gives out logits that come in as images, so that nothing but the exam costs anything."""

    def forward(self, images: Tensor) -> Tensor:
        """As they came."""
        return images.flatten(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=20000)
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads that wait for each other count as CPU time
    for classes in (10, 1000):
        torch.manual_seed(0)
        n = options.images if classes == 10 else options.images // 10
        logits, labels = 2 * torch.randn(n, classes), torch.randint(classes, (n,))
        shown = torch.randn(BATCH, 3, 32, 32)
        model = create_model("resnet_mini").eval()
        ways: dict[str, Callable[[], object]] = {
            "vitscope": lambda logits=logits, labels=labels: ours(logits, labels),
            "torchmetrics": lambda logits=logits, labels=labels: theirs(logits, labels),
            "forward": lambda model=model, shown=shown: passed(model, shown),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(1 + options.rounds):
            for name, way in ways.items():
                start = time.process_time()
                way()
                if turn:
                    seconds[name].append(time.process_time() - start)
        mine, other, forward = (statistics.median(seconds[name]) for name in ways)
        per_pass = (mine / n) / (forward / BATCH)
        print(
            f"{n} predictions of {classes} classes: vitscope {mine:.2f} s, torchmetrics {other:.2f} s "
            f"({mine / other:.2f}); over a forward pass of resnet_mini {per_pass:.3f}"
        )
        measured(
            f"prediction, {classes} classes, with intervals", "a forward pass of resnet_mini", per_pass, 0.1
        )
        measured(
            f"prediction, {classes} classes, with intervals",
            "torchmetrics without",
            mine / other,
            None,
            "most",
            "peer",
        )


def ours(logits: Tensor, labels: Tensor) -> object:
    images = logits[:, :, None, None]
    return examine(Given(), (images, labels), [EXAMS["prediction"]], batch_size=BATCH)


def theirs(logits: Tensor, labels: Tensor) -> object:
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError

    classes = logits.shape[1]
    found = MetricCollection(
        {
            "accuracy": MulticlassAccuracy(classes, average="micro"),
            "classes": MulticlassAccuracy(classes, average=None),
            "top5": MulticlassAccuracy(classes, top_k=5, average="micro"),
            "ece": MulticlassCalibrationError(classes),
        },
        compute_groups=False,
    )
    for piece, own in zip(logits.split(BATCH), labels.split(BATCH), strict=True):
        found.update(piece.softmax(1), own)
    return found.compute()


@torch.inference_mode()
def passed(model: nn.Module, images: Tensor) -> object:
    return model(images)


if __name__ == "__main__":
    main()
