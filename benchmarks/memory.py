"""Whether the streaming exams need more memory for more images: peak resident memory of a fresh process each.

    python benchmarks/memory.py [--model vit_mini] [--few 2000] [--many 20000]

The images are made when they are asked for, so that only what the exams keep can grow. Goal: within 5 %.
"""

import argparse
import json
import resource
import subprocess
import sys
from typing import Any

import torch
from ratios import measured
from torch import Tensor
from torch.utils.data import Dataset

import vitscope as vs


class Made(Dataset[Any]):
    """As many images as wanted, none of which exists before it is asked for."""

    def __init__(self, n: int) -> None:
        self.labels = [i % 10 for i in range(n)]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(i)), self.labels[i]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="vit_mini")
    parser.add_argument("--few", type=int, default=2000)
    parser.add_argument("--many", type=int, default=20000)
    parser.add_argument("--one", type=int, help="measure this many images here and print the peak in MB")
    options = parser.parse_args()
    if options.one:
        torch.set_num_threads(1)
        vs.diagnose(vs.create_model(options.model), Made(options.one), batch_size=128)
        print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
        return
    peaks = [peak(options.model, n) for n in (options.few, options.many)]
    print(f"{'images':>8}{'peak MB':>10}")
    for n, found in zip((options.few, options.many), peaks, strict=True):
        print(f"{n:>8}{found:>10.0f}")
    print(f"ratio {peaks[1] / peaks[0]:.3f} (goal: at most 1.05)")
    measured(f"memory of a pass over {options.many} images", f"over {options.few}", peaks[1] / peaks[0], 1.05)


def peak(model: str, n: int) -> float:
    command = [sys.executable, __file__, "--model", model, "--one", str(n)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    main()
