"""`prepare`: get a data set from whichever source is there, verify it, and keep it in the cache.

The embedded part of Fashion-MNIST is made once and lies in the repository: of every class the first 600 images of the
official training set and the first 200 of the test set, in their order, so that classes take turns.

    python -m vitscope.data.prepare FOLDER        # a folder that holds the four idx files of Fashion-MNIST
"""

import io
import os
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.catalog import CATALOG, Arrays, Entry, data_root, partial_folder, verify, write
from vitscope.data.fetch import sources, unpack
from vitscope.data.published_sets import (
    EMBEDDED,
    N_CLASSES,
    Report,
    read_cifar10,
    read_cifar100,
    read_fashion,
    read_idx,
)


def prepare(name: str, source: str | Path | None = None, report: Report = print) -> Path | None:
    """Make the data set ready for `load_data`; returns its folder (None for one that is in the package).

    Args:
        name: of the catalog.
        source: a folder or an archive that holds the files; without it the known sources are tried in turn.
        report: is told what happens.
    """
    if name not in CATALOG:
        raise BadData(f"no data set '{name}' to prepare; there are {', '.join(CATALOG)}")
    entry = CATALOG[name]
    if entry.embedded:
        report(f"{name} is part of the package; nothing to prepare")
        return None
    target = data_root() / name
    damage = verify(entry)
    if damage is None:
        report(f"{name} is already in {target}; every byte is as it was written")
        return target
    if target.exists():
        report(f"{damage}: preparing it again")
    with partial_folder(entry) as partial:
        if source is not None:
            arrays, origin = _from_files(entry, Path(source).expanduser(), partial, report), str(source)
        else:
            arrays, origin = _from_known_sources(entry, partial, report)
        (partial / "arrays").mkdir()
        target = write(entry, arrays, origin, partial / "arrays")
    report(f"{name} is ready in {target}: {entry.train} training and {entry.test} test images")
    return target


def _from_files(entry: Entry, source: Path, partial: Path, report: Report) -> Arrays:
    files = partial / "files"
    files.mkdir()
    return _read(entry, unpack(source, files), report)


def _from_known_sources(entry: Entry, partial: Path, report: Report) -> tuple[Arrays, str]:
    failures = []
    for number, candidate in enumerate(sources(entry.name)):
        files = partial / f"files-{number}"
        files.mkdir()
        report(f"{entry.name}: trying {candidate.about}")
        try:
            candidate.fetch(files)
            return _read(entry, files, report), candidate.about
        except BadData as error:
            report(f"{entry.name}: not from {candidate.about}: {error}")
            failures.append(candidate.about)
    raise BadData(
        f"{entry.name} came from none of: {', '.join(failures)}; fetch it by hand and type: "
        f"vitscope data prepare {entry.name} --source PATH"
    )


def _read(entry: Entry, folder: Path, report: Report) -> Arrays:
    if entry.name == "fashion-full":
        return read_fashion(folder)
    return read_cifar10(folder, report) if entry.name == "cifar10" else read_cifar100(folder, report)


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
        sys.exit("usage: python -m vitscope.data.prepare FOLDER (with the four idx files of Fashion-MNIST)")
    embed(Path(sys.argv[1]))
