"""A study of another task: arms with a decoder on their backbone, operated on or not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import vitscope as vs
from vitscope.core.errors import VitscopeError

STUDY = """
name: pixels
data: masks:{folder}
recipe: dense
changes: {{epochs: 1, batch_size: 4}}
arms:
  vit: {{model: vit_mini, arguments: {{img_size: 32, depth: 4, embed_dim: 12, num_heads: 2, channels: 8}}}}
  cb:
    model: vit_mini
    arguments: {{img_size: 32, depth: 4, embed_dim: 12, num_heads: 2, channels: 8}}
    operations: [broadcast_context: {{layers: upper}}]
seeds: 2
exams: {{fourier: {{limit: 4}}}}
comparisons:
  - {{statement: Context Broadcasting helps, of: cb, against: vit, quantity: training.miou, rule: above 0}}
"""


def test_study_of_segmentation(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 4)):
        for part in ("images", "masks"):
            (tmp_path / "data" / split / part).mkdir(parents=True)
        for i in range(count):
            mask = np.zeros((32, 32), np.uint8)
            mask[4:16, int(draw.integers(0, 16)) :][:, :12] = 1
            pixels = (mask * 150 + draw.integers(0, 90, mask.shape)).astype(np.uint8)
            Image.fromarray(np.repeat(pixels[..., None], 3, 2)).save(
                tmp_path / "data" / split / "images" / f"{i}.png"
            )
            Image.fromarray(mask).save(tmp_path / "data" / split / "masks" / f"{i}.png")
    file = tmp_path / "study.yaml"
    file.write_text(STUDY.format(folder=tmp_path / "data"))
    done = vs.study(file, tmp_path / "out", tmp_path / "store", engine="here", progress=False)
    row = done.comparisons().iloc[0]
    assert row["seeds"] == 2
    found: dict[bool, list[float]] = {True: [], False: []}
    for run in (tmp_path / "store" / "train").iterdir():
        operated = bool(getattr(vs.create_model(run), "vitscope_surgery", []))
        found[operated].append(pd.read_csv(run / "metrics.csv")["miou"].iloc[-1])
    assert [len(values) for values in found.values()] == [2, 2]
    assert row["value"] == pytest.approx(np.mean(found[True]) - np.mean(found[False]), rel=1e-9)
    file.write_text(STUDY.format(folder=tmp_path / "data").replace("recipe: dense", "recipe: mini"))
    with pytest.raises(VitscopeError, match=r"arm vit: recipe mini: .* segmentation knows no such thing"):
        vs.study(file, tmp_path / "out2", tmp_path / "store2", engine="here", progress=False)
