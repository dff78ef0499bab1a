"""Passes that are interrupted, and shared by two processes."""

import json
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor, nn

from tests.exams.robustness_job import EXAMS, numbers, transformer
from tests.processes import run
from vitscope.data import ImageData
from vitscope.engine.finished_parts import Parts
from vitscope.results.codec import encode


class Counting(nn.Module):
    """A model that counts its passes, and is interrupted in the middle of one if told so."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = transformer()
        self.pretrained_cfg = {**self.inner.pretrained_cfg, "input_size": (3, 32, 32)}
        self.passes, self.last = 0, 10**9

    def forward(self, images: Tensor) -> Tensor:
        self.passes += 1
        if self.passes > self.last:
            raise KeyboardInterrupt
        return self.inner(images)


@pytest.mark.parametrize("name", EXAMS)
def test_an_interrupted_pass_goes_on(name: str, fashion: ImageData, tmp_path: Path) -> None:
    exam, options = EXAMS[name]
    request = {"limit": 60, "batch_size": 16, "name": "t", **options}
    whole = Counting()
    expected = encode(exam(whole, fashion, **request))
    model = Counting()
    model.last = int(0.7 * whole.passes)  # in the third of four batches
    with pytest.raises(KeyboardInterrupt):
        exam(model, fashion, parts=Parts(tmp_path, name, "key"), **request)
    model.passes, model.last = 0, 10**9
    assert encode(exam(model, fashion, parts=Parts(tmp_path, name, "key"), **request)) == expected
    assert model.passes < 0.6 * whole.passes
    model.passes = 0
    exam(model, fashion, parts=Parts(tmp_path, name, "another"), **request)
    assert model.passes == whole.passes


def test_a_pass_with_other_batches_starts_from_the_beginning(fashion: ImageData, tmp_path: Path) -> None:
    exam, options = EXAMS["occlusion"]
    model = Counting()
    exam(model, fashion, limit=20, batch_size=10, parts=Parts(tmp_path, "occlusion", "key"), **options)
    first, model.passes = model.passes, 0
    exam(model, fashion, limit=20, batch_size=20, parts=Parts(tmp_path, "occlusion", "key"), **options)
    assert 0 < model.passes < first  # one batch instead of two, all of it


def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    done = run(Path(__file__).parents[1] / "exams" / "robustness_job.py", tmp_path, processes=2)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    together, alone = _leaves(first), _leaves(json.loads(json.dumps(numbers())))
    assert together.keys() == alone.keys()
    for place, value in alone.items():
        if isinstance(value, float):  # sums in another order
            np.testing.assert_allclose(together[place], value, rtol=1e-9, atol=1e-12, err_msg=place)
        else:
            assert together[place] == value, place


def _leaves(tree: object, place: str = "") -> dict[str, object]:
    if isinstance(tree, dict):
        return {k: v for key, child in tree.items() for k, v in _leaves(child, f"{place}/{key}").items()}
    if isinstance(tree, list):
        return {k: v for i, child in enumerate(tree) for k, v in _leaves(child, f"{place}/{i}").items()}
    return {place: tree}
