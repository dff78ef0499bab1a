import copy
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.landscape_cases import nudged, tiny_vit, write_run
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.exams.loss.trajectory import polar, trajectory
from vitscope.findings.trajectory import TrajectoryResult
from vitscope.results import Result


def vector(model: nn.Module) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()]).astype(np.float64)


@pytest.fixture(scope="module")
def states() -> dict[str, tuple[float, nn.Module]]:
    end = tiny_vit()
    moments = {"init": (0.0, 0.5), "warmup": (0.3, 0.4), "epoch-001": (1.0, 0.2), "epoch-002": (2.0, 0.1)}
    found = {
        name: (epoch, nudged(end, size, 7 + i)) for i, (name, (epoch, size)) in enumerate(moments.items())
    }
    return {**found, "best": (1.0, found["epoch-001"][1]), "last": (3.0, end)}


@pytest.fixture(scope="module")
def run(states, tmp_path_factory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "mine", states)


@pytest.mark.parametrize(
    ("optimum", "names"),
    [
        ("last", ["init", "warmup", "epoch-001", "epoch-002", "last"]),
        ("best", ["init", "warmup", "best", "epoch-002", "last"]),
    ],
)
def test_by_hand(states, run: Path, optimum, names) -> None:
    found = trajectory(run, optimum)
    assert list(found.checkpoints) == names
    target = vector(states[optimum][1])
    deltas = [vector(states[name][1]) - target for name in names]
    first = deltas[0]
    for name, delta, r, theta in zip(names, deltas, found.r, found.theta, strict=True):
        assert r == pytest.approx(np.linalg.norm(delta) / np.linalg.norm(first), rel=1e-5, abs=1e-12)
        if name == optimum:
            assert (r, math.isnan(theta)) == (0.0, True)
        else:
            cosine = delta @ first / np.linalg.norm(delta) / np.linalg.norm(first)
            assert theta == pytest.approx(np.arccos(np.clip(cosine, -1, 1)), abs=1e-4)
    assert (found.r[0], found.theta[0]) == (1.0, 0.0)
    way = deltas[: names.index(optimum) + 1]
    length = sum(np.linalg.norm(b - a) for a, b in itertools.pairwise(way))
    assert found.detour == pytest.approx(length / np.linalg.norm(first), rel=1e-5)
    assert found.distance == pytest.approx(np.linalg.norm(first), rel=1e-5)
    assert (found.start, found.optimum, found.chosen) == ("init", optimum, optimum)
    assert found.parameters == len(target)


def test_a_straight_way_has_no_angle_and_no_detour(tmp_path: Path) -> None:
    start, end = nudged(tiny_vit(), 0.5, 1), tiny_vit()
    middle = copy.deepcopy(end)
    with torch.no_grad():
        for m, s, e in zip(middle.parameters(), start.parameters(), end.parameters(), strict=True):
            m.copy_(0.25 * s + 0.75 * e)
    run = write_run(tmp_path / "run", {"init": (0.0, start), "epoch-001": (1.0, middle), "last": (2.0, end)})
    found = trajectory(run)
    assert found.r == pytest.approx([1.0, 0.25, 0.0], abs=1e-6)
    assert found.theta[:2] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert found.detour == pytest.approx(1.0, abs=1e-6)


def test_polar_coordinates_in_the_plane() -> None:
    first = torch.tensor([2.0, 0.0], dtype=torch.float64)
    for r, theta in ((0.5, 0.0), (1.0, 1e-9), (2.0, 1.2), (0.1, math.pi)):
        step = 2.0 * r * torch.tensor([math.cos(theta), math.sin(theta)], dtype=torch.float64)
        assert polar(step, first) == pytest.approx((r, theta), rel=1e-9, abs=1e-15)
    assert polar(torch.zeros(2).double(), first) == pytest.approx((0.0, math.nan), nan_ok=True)


def test_buffers_do_not_count(tmp_path: Path) -> None:
    def network(scale: int) -> nn.Module:
        torch.manual_seed(0)
        model = vs.create_model("resnet_mini", num_classes=10)
        for buffer in model.buffers():
            buffer += scale
        return model

    moved = network(5)
    with torch.no_grad():
        next(moved.parameters()).add_(0.1)
    run = write_run(tmp_path / "run", {"init": (0.0, moved), "last": (1.0, network(0))})
    found = trajectory(run)
    assert found.distance == pytest.approx(0.1 * math.sqrt(next(moved.parameters()).numel()), rel=1e-4)


def test_table_saved_and_loaded(run: Path, tmp_path: Path) -> None:
    found = trajectory(run)
    table = found.table()
    rows = table[table["quantity"] == "r"]
    assert rows["checkpoint"].tolist() == list(found.checkpoints)
    np.testing.assert_array_equal(rows["value"], found.r)
    assert found.summary()["quantity"].tolist() == ["distance", "detour", "largest theta"]
    found.save(tmp_path)
    loaded = Result.load(tmp_path)
    assert isinstance(loaded, TrajectoryResult)
    assert loaded.table().equals(table)


def test_diagnose_of_a_run_folder_and_of_a_model_that_has_none(run: Path, tmp_path: Path) -> None:
    data = vs.load_data("fashion", split="test")
    found = vs.diagnose(run, data, exams=["trajectory"], limit=8, out=tmp_path / "out")["trajectory"]
    assert isinstance(found, TrajectoryResult)
    np.testing.assert_array_equal(found.r, trajectory(run).r)
    assert (tmp_path / "out" / "figures" / "trajectory.png").exists()
    nothing = vs.diagnose(tiny_vit(), data, exams=["trajectory"], limit=8, out=tmp_path / "none")[
        "trajectory"
    ]
    assert len(nothing.table()) == len(nothing.summary()) == 0
    assert not list((tmp_path / "none" / "figures").glob("*"))


def test_what_has_no_trajectory_is_refused(states, run: Path, tmp_path: Path) -> None:
    with pytest.raises(VitscopeError, match="optimum is 'first'; expected last or best"):
        trajectory(run, "first")  # type: ignore[arg-type]
    with pytest.raises(BadResult, match="kept no checkpoint before 'last'"):
        trajectory(run, checkpoints=["last"])
    short = write_run(tmp_path / "short", {name: states[name] for name in ("init", "last")})
    with pytest.raises(BadResult, match="kept no checkpoint 'best'; take the last one"):
        trajectory(short, "best")
    (short / "checkpoints" / "init.safetensors").write_bytes(
        (short / "checkpoints" / "last.safetensors").read_bytes()
    )
    with pytest.raises(BadResult, match=r"'init' and 'last' of .* are the same weights"):
        trajectory(short)
