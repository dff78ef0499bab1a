"""Sums that are collected apart and merged: over parts, over an interruption, over processes."""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import vitscope as vs
from tests.processes import run
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.engine.exam import Accumulator, Procedure, Sums
from vitscope.exams import EXAMS, find_exams


class Powers(Sums):
    first: Tensor
    second: Tensor
    n: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_sum("first", (3,))
        self.add_sum("second", (3,))
        self.add_sum("n", dtype=torch.int64)

    def update(self, values: Tensor) -> None:
        assert not torch.is_grad_enabled()
        self.first += values.sum(0)
        self.second += (values**2).sum(0)
        self.n += len(values)


def values() -> Tensor:
    return torch.randn(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def collected(*parts: slice) -> Powers:
    powers = Powers()
    for part in parts:
        powers.update(values()[part].requires_grad_())
    return powers


def test_parts_merge_to_the_whole() -> None:
    whole, first, rest = (collected(slice(*ends)) for ends in ((0, 10), (0, 4), (4, 10)))
    first.merge_state(rest)
    assert int(first.n) == 10
    for name, total in whole.state().items():
        torch.testing.assert_close(first.state()[name], total, rtol=1e-14, atol=1e-14)
        assert not total.requires_grad


def test_goes_on_from_a_state_and_leaves_that_alone() -> None:
    before = collected(slice(0, 4))
    kept = {name: total.clone() for name, total in before.state().items()}
    after = Powers()
    after.load_state(before.state())
    after.update(values()[4:])
    assert torch.equal(after.first, collected(slice(0, 4), slice(4, 10)).first)
    assert all(torch.equal(before.state()[name], total) for name, total in kept.items())


def test_alone_nothing_changes() -> None:
    powers = collected(slice(0, 10))
    with powers.of_all_processes():
        inside = powers.first.clone()
    assert torch.equal(inside, powers.first)
    with pytest.raises(ZeroDivisionError), powers.of_all_processes():
        raise ZeroDivisionError
    assert powers.state().keys() == {"first", "second", "n"}


def test_three_processes_of_which_one_has_nothing(tmp_path: Path) -> None:
    done = run(Path(__file__), tmp_path, processes=3)
    assert done.returncode == 0, done.stderr
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    whole = collected(slice(0, 10))
    for rank, own in enumerate((4, 0, 6)):
        assert found[rank]["n"] == [10, own]
        torch.testing.assert_close(
            torch.tensor(found[rank]["first"], dtype=torch.float64), whole.first, rtol=1e-14, atol=1e-14
        )
        assert found[rank]["first"] == found[0]["first"]


if __name__ == "__main__":
    with distributed.process_group():
        shares = [(slice(0, 4),), (), (slice(4, 10),)]
        powers = collected(*shares[distributed.rank()])
        with powers.of_all_processes():
            seen = {"first": powers.first.tolist(), "n": [int(powers.n)]}
        seen["n"].append(int(powers.n))
        Path(sys.argv[1], f"{distributed.rank()}.json").write_text(json.dumps(seen))


def test_every_exam_is_there_under_its_name_in_order() -> None:
    assert list(EXAMS)[:5] == ["prediction", "segmentation", "detection", "answers", "fourier"]
    for name, exam in EXAMS.items():
        assert isinstance(exam, Procedure) or issubclass(exam, Accumulator)
        assert exam.result.exam == name
        about = exam.result.about
        assert all([about.title, about.shows, about.papers, about.misleads])


def test_names_are_found_once_each_in_the_order_given() -> None:
    assert find_exams(["variance", "fourier", "variance"]) == [EXAMS["variance"], EXAMS["fourier"]]
    assert find_exams() == [e for e in EXAMS.values() if isinstance(e, type) and e.by_default]
    assert EXAMS["effective_rank"] not in find_exams()


def test_all_are_those_that_do_not_take_long() -> None:
    found = find_exams(["lesion", "all"])
    assert found[0] is EXAMS["lesion"]
    assert set(map(id, found)) == {
        id(exam)
        for exam in EXAMS.values()
        if not (isinstance(exam, Procedure) and (exam.costly or exam.evaluation))
    }


@pytest.mark.parametrize("exam", ["variance", "noise"])
def test_data_may_be_a_name(exam: str) -> None:
    model = vs.create_model("vit_mini")
    found = getattr(vs.exams, exam)(model, "fashion", limit=4)
    pd.testing.assert_frame_equal(
        found.table(), getattr(vs.exams, exam)(model, vs.load_data("fashion"), limit=4).table()
    )
    with pytest.raises(VitscopeError, match=r"no data set 'fashon'; .* did you mean 'fashion'\?"):
        getattr(vs.exams, exam)(model, "fashon")


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        VitscopeError,
        match="no exam 'palmistry'; there are: prediction, segmentation, detection, answers, fourier",
    ):
        find_exams(["palmistry"])
    with pytest.raises(VitscopeError, match=r"no exam 'furrier'; did you mean fourier\?$"):
        find_exams(["furrier"])
    with pytest.raises(AttributeError, match=r"no exam 'furrier'; did you mean fourier\?$"):
        _ = vs.exams.furrier
    with pytest.raises(AttributeError, match="no exam 'palmistry'") as refused:
        _ = vs.exams.palmistry
    assert "log_log_slope" not in str(refused.value)
    with pytest.raises(VitscopeError, match="no exam was named"):
        find_exams([])


@pytest.mark.parametrize(
    ("exam", "option", "same", "other", "settings"),
    [
        ("prediction", "temperature", None, 2.0, '{"temperature": 2.0}'),
        ("prediction", "temperature", None, "fit", '{"temperature": "fit"}'),
        ("segmentation", "window", None, 1.5, '{"window": 1.5}'),
        ("detection", "score", 0.5, 0.25, '{"score": 0.25}'),
    ],
)
def test_an_exam_with_options_is_known_by_them(
    exam: str, option: str, same: Any, other: Any, settings: str
) -> None:
    found = EXAMS[exam]
    assert isinstance(found, type)
    assert found.with_options(**{option: same}) is found
    assert found.settings == ""
    changed = found.with_options(**{option: other})
    assert changed.settings == settings  # results of older versions are found by it
    assert getattr(changed, option) == other
    assert EXAMS[exam] is found
