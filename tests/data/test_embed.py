import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.catalog import CATALOG
from vitscope.data.fetch import sources
from vitscope.data.prepare import PER_CLASS, embed, prepare
from vitscope.data.published_sets import EMBEDDED
from vitscope.data.sources import load_data


def test_what_it_takes_is_what_the_catalog_promises() -> None:
    assert {split: 10 * n for split, n in PER_CLASS.items()} == {"train": 6000, "test": 2000}
    assert (CATALOG["fashion"].train, CATALOG["fashion"].test) == (6000, 2000)


def test_the_command_says_what_it_wants() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vitscope.data.prepare"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "usage: python -m vitscope.data.prepare FOLDER" in done.stderr


@pytest.mark.slow  # fetches 30 MB
def test_embedded_part_is_made_from_the_published_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in reversed(sources("fashion-full")):
        try:
            (tmp_path / "files").mkdir(exist_ok=True)
            source.fetch(tmp_path / "files")
            break
        except BadData:
            continue
    embed(tmp_path / "files", out=tmp_path)
    for split in ("train", "test"):
        made, kept = (
            np.asarray(Image.open(folder / f"fashion-{split}.png")) for folder in (tmp_path, EMBEDDED)
        )
        assert (made == kept).all()
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "cache"))
    prepare("fashion-full", tmp_path / "files")
    for split in ("train", "test"):
        part, whole = load_data("fashion", split), load_data("fashion-full", split)
        assert part.images is not None
        assert whole.images is not None
        labels = {image.tobytes(): label for image, label in zip(whole.images, whole.labels, strict=True)}
        assert [labels[image.tobytes()] for image in part.images] == part.labels.tolist()
