"""Make the embedded part of Fashion-MNIST from the full set; it is made once and lies in the repository.

    python -m vitscope.data.embed FOLDER        # a folder that holds the four idx files of Fashion-MNIST

Of every class the first 600 images of the official training set and the first 200 of the official test set
are taken, in their order, and written so that classes take turns.
"""

import io
import os
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.data.fashion import EMBEDDED, N_CLASSES, read_idx

PER_CLASS = {"train": 600, "test": 200}


def embed(folder: Path, out: Path = EMBEDDED) -> None:
    """Write fashion-train.png and fashion-test.png into `out`."""
    for split, (images, labels) in read_idx(folder).items():
        members = [np.flatnonzero(labels == label)[: PER_CLASS[split]] for label in range(N_CLASSES)]
        in_turns = np.stack(members, axis=1).ravel()
        strip = Image.fromarray(images[in_turns].reshape(-1, images.shape[2]))
        packed = io.BytesIO()
        strip.save(packed, "PNG", optimize=True)
        target = out / f"fashion-{split}.png"
        partial = target.with_suffix(".partial")
        partial.write_bytes(packed.getvalue())
        os.replace(partial, target)
        print(f"{target.name}: {len(in_turns)} images, {len(packed.getvalue()) / 1e6:.2f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m vitscope.data.embed FOLDER (with the four idx files of Fashion-MNIST)")
    embed(Path(sys.argv[1]))
