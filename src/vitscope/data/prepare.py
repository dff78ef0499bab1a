"""`prepare`: get a data set from whichever source is there, verify it, and keep it in the cache.

The embedded part of Fashion-MNIST is made once and lies in the repository: of every class the first 600 images of the
official training set and the first 200 of the test set, in their order, so that classes take turns.

    python -m vitscope.data.prepare FOLDER        # a folder that holds the four idx files of Fashion-MNIST
"""

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.catalog import (
    CATALOG,
    Arrays,
    CatalogEntry,
    data_root,
    family_of,
    partial_folder,
    verify,
    write,
)
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

Made = Mapping[str, Arrays]  # by the name of the data set


def prepare(name: str, source: str | Path | None = None, report: Report = print) -> Path | None:
    """Make the data set ready for `load_data`; returns its folder (None for one that is in the package).

    Args:
        name: of the catalog. Sets that are made of the same files are prepared together.
        source: a folder or an archive that holds the files; without it the known sources are tried in turn.
        report: is told what happens.
    """
    if name not in CATALOG:
        raise BadData(f"no data set '{name}' to prepare; there are {', '.join(CATALOG)}")
    entry = CATALOG[name]
    if entry.embedded:
        report(f"{name} is part of the package; nothing to prepare")
        return None
    missing = []
    for one in family_of(entry):
        target, damage = data_root() / one.name, verify(one)
        if damage is None:
            report(f"{one.name} is already in {target}; every byte is as it was written")
            continue
        if target.exists():
            report(f"{damage}: preparing it again")
        missing.append(one)
    if not missing:
        return data_root() / name
    with partial_folder(entry) as partial:
        if source is not None:
            made, origin = _from_files(entry, Path(source).expanduser(), partial, report), str(source)
        else:
            made, origin = _from_known_sources(entry, partial, report)
        for one in missing:
            folder = partial / f"arrays-{one.name}"
            folder.mkdir()
            target = write(one, made[one.name], origin, folder)
            report(f"{one.name} is ready in {target}: {_counted(one)}")
    return data_root() / name


def _counted(entry: CatalogEntry) -> str:
    what = {"vqa": "questions", "classification": "images"}.get(entry.task, "pictures")
    said = {"train": "training", "test": "test"}
    return " and ".join(f"{entry.size(split)} {said[split]}" for split in entry.splits) + f" {what}"


def _from_files(entry: CatalogEntry, source: Path, partial: Path, report: Report) -> Made:
    files = partial / "files"
    files.mkdir()
    return _read(entry, unpack(source, files), report)


def _from_known_sources(entry: CatalogEntry, partial: Path, report: Report) -> tuple[Made, str]:
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


def _read(entry: CatalogEntry, folder: Path, report: Report) -> Made:
    """The arrays of the data set, and of those that are made of the same files."""
    if entry.family == "coral":
        from vitscope.data.tasks.coral import read_coral

        return read_coral(folder, report)
    if entry.name == "trees":
        from vitscope.data.tasks.trees import read_trees

        return {entry.name: read_trees(folder, report)}
    if entry.name == "easy-vqa":
        from vitscope.data.tasks.easy_vqa import read_easy_vqa

        return {entry.name: read_easy_vqa(folder, report)}
    if entry.name == "fashion-full":
        return {entry.name: read_fashion(folder)}
    read = read_cifar10 if entry.name == "cifar10" else read_cifar100
    return {entry.name: read(folder, report)}


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
