"""Train the small models on real data at equal epochs, and say what came out.

    python benchmarks/trained_minis.py --out runs/minis            # hours; goes on where it was interrupted
    python benchmarks/trained_minis.py --out runs/minis --table    # only the tables of docs/findings.md

Every training is one `vitscope train` command with seed 0 on one thread; `vit_mini + CB` is `vit_mini` operated on
(`vitscope operate --broadcast-context`). Values are those of the last epoch on all test images: no epoch, and no
model, was chosen by them.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import vitscope as vs
from vitscope.data import batches

EPOCHS = {"cifar10": 8, "fashion-full": 6}
MODELS = ("resnet_mini", "preresnet_mini", "alternet_mini", "vit_mini", "vit_mini_cb")
PAIRS = (("alternet_mini", "preresnet_mini"), ("alternet_mini", "resnet_mini"), ("vit_mini_cb", "vit_mini"))
NAMES = {"vit_mini_cb": "vit_mini + CB"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="do not train")
    options = parser.parse_args()
    if not options.table:
        operated = options.out / "vit_mini_cb"
        if not operated.exists():
            vitscope("operate", "vit_mini", "--broadcast-context", "--out", str(operated))
        for data in EPOCHS:
            for model in MODELS:
                train(options.out, data, model)
    for data in EPOCHS:
        print(f"\n### {data}, {EPOCHS[data]} epochs\n")
        print(tables(options.out, data))


def command(out: Path, data: str, model: str) -> list[str]:
    start = str(out / model) if model == "vit_mini_cb" else model
    return ["train", start, "--data", data, "--recipe", "mini", "--epochs", str(EPOCHS[data]),
            "--checkpoint-every", "1", "--seed", "0", "--out", str(out / "runs" / data / model)]  # fmt: skip


def train(out: Path, data: str, model: str) -> None:
    run = out / "runs" / data / model
    if finished_epochs(run) < EPOCHS[data]:
        vitscope(*command(out, data, model), *(["--resume"] if run.exists() else []))


def finished_epochs(run: Path) -> int:
    metrics = run / "metrics.csv"
    return len(pd.read_csv(metrics)) if metrics.exists() else 0


def vitscope(*arguments: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "vitscope.cli.app", *arguments], check=True, env=environment)


def tables(out: Path, data: str) -> str:
    """The models with their intervals, and the differences between them on the same images."""
    images = vs.load_data(data, split="test")
    lines = ["| model | parameters | accuracy | NLL | ECE | minutes |", "|---|---|---|---|---|---|"]
    correct: dict[str, np.ndarray] = {}
    for name in MODELS:
        run = out / "runs" / data / name
        if finished_epochs(run) < EPOCHS[data]:
            continue
        model = vs.create_model(str(run))
        found = vs.exams.prediction(model, images).table().set_index("quantity")
        cells = [interval(found.loc["accuracy"], 100, "{:.1f} %"), interval(found.loc["nll"], 1, "{:.3f}")]
        cells.append(interval(found.loc["ece"], 100, "{:.1f} %"))
        millions = sum(p.numel() for p in model.parameters()) / 1e6
        minutes = pd.read_csv(run / "metrics.csv")["seconds"].iloc[-1] / 60
        lines.append(f"| {NAMES.get(name, name)} | {millions:.2f} M | {' | '.join(cells)} | {minutes:.0f} |")
        correct[name] = answers(model, images)
    lines += ["", "| difference on the same images | accuracy, points |", "|---|---|"]
    for a, b in PAIRS:
        if a in correct and b in correct:
            gap = 100 * (correct[a].astype(float) - correct[b])
            half = 1.96 * gap.std(ddof=1) / len(gap) ** 0.5
            lines.append(
                f"| {NAMES.get(a, a)} less {NAMES.get(b, b)} | "
                f"{gap.mean():+.2f} [{gap.mean() - half:+.2f}, {gap.mean() + half:+.2f}] |"
            )
    return "\n".join(lines)


def interval(row: pd.Series, factor: float, form: str) -> str:
    value, low, high = (form.format(factor * float(row[column])) for column in ("value", "low", "high"))
    return f"{value} [{low.removesuffix(' %')}, {high.removesuffix(' %')}]"


@torch.inference_mode()
def answers(model: torch.nn.Module, images: object) -> np.ndarray:
    """Whether each image is told right, in the order of the data."""
    right = np.zeros(len(images), bool)  # type: ignore[arg-type]
    for batch, labels, indices in batches(images, model, batch_size=250):  # type: ignore[arg-type]
        right[indices.numpy()] = (model.eval()(batch).argmax(1) == labels).numpy()
    return right


if __name__ == "__main__":
    main()
