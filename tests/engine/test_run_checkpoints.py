from pathlib import Path

import pytest

from tests.exams.landscape_cases import tiny_vit, write_run
from vitscope.core.errors import BadResult
from vitscope.engine.run_checkpoints import checkpoint_series


def test_one_checkpoint_per_moment_in_the_order_of_the_training(tmp_path: Path) -> None:
    model = tiny_vit()
    moments = {"init": 0.0, "warmup": 0.5, "epoch-001": 1.0, "epoch-002": 2.0, "best": 1.0, "last": 2}
    run = write_run(tmp_path / "run", {name: (epoch, model) for name, epoch in moments.items()})
    names = [checkpoint.name for checkpoint in checkpoint_series(run)]
    assert names == ["init", "warmup", "epoch-001", "epoch-002"]
    chosen = checkpoint_series(run, ["last", "init"])
    assert [(checkpoint.name, checkpoint.epoch) for checkpoint in chosen] == [("init", 0.0), ("last", 2)]
    with pytest.raises(BadResult, match="has no checkpoint 'epoch-009'; it has init, warmup"):
        checkpoint_series(run, ["epoch-009"])


def test_a_run_without_any_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match="kept no checkpoints; train with: vitscope train"):
        checkpoint_series(tmp_path)
