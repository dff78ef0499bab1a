import copy
import json
import lzma
import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vitscope.core.errors import BadArgument, BadResult
from vitscope.core.statistics import Estimate
from vitscope.findings.fourier import FourierResult
from vitscope.findings.variance import VarianceResult
from vitscope.results import Result, UnitRow
from vitscope.results.codec import encode
from vitscope.results.result import PACKED, result_types

SCHEMA_1 = Path(__file__).parent / "schema_1"
NUMBERS: dict[str, Any] = {
    "value": np.array([0.1, 1 / 3]),
    "low": np.array([0.0, 0.3]),
    "high": np.array([0.2, 0.4]),
    "change": Estimate(np.array([np.nan, 0.2]), np.array([np.nan, 0.1]), np.array([np.nan, 0.3])),
    "kind_change": Estimate(np.array([0.2]), np.array([0.1]), np.array([0.3])),
}


def example() -> VarianceResult:
    units = (UnitRow("stem", "stem", 0, 0.0, (8, 4, 4)), UnitRow("a", "msa", 0, 1.0, (8, 4, 4)))
    numbers = copy.deepcopy(NUMBERS)
    return VarianceResult(model="m", data="d", n=5, seed=3, units=units, kinds=("msa",), **numbers)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_comes_back_as_the_right_type_without_loss(tmp_path: Path) -> None:
    example().save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, VarianceResult)
    assert (back.model, back.data, back.n, back.seed, back.units) == ("m", "d", 5, 3, example().units)
    for name, array in NUMBERS.items():
        np.testing.assert_array_equal(getattr(back, name), array)


@pytest.mark.parametrize("exam", sorted(one.name for one in SCHEMA_1.iterdir()))
def test_what_earlier_versions_wrote_is_read_and_written_alike(exam: str, tmp_path: Path) -> None:
    result = Result.load(SCHEMA_1 / exam)
    assert result.exam == exam
    result.save(tmp_path)
    lines = (SCHEMA_1 / exam / f"{exam}.csv").read_text().splitlines()
    if exam == "prediction":  # of three classes: that one was shown then
        lines = [line for line in lines if ",top5," not in line]
    if exam == "landscape":  # intervals of shares and losses went below 0 then
        lines = [re.sub(r"(,(?:accuracy|nll|loss),[^,]*),-[^,]*,", r"\1,0.0,", line) for line in lines]
    assert (tmp_path / f"{exam}.csv").read_text().splitlines() == lines
    then, now = (json.loads((folder / "result.json").read_text()) for folder in (SCHEMA_1 / exam, tmp_path))
    defaults = {one.name: one.default for one in fields(result)}
    later = {name: defaults[name] for name in now["result"].keys() - then["result"].keys()}
    assert now["result"] == {**later, **then["result"]}  # what came later has the default


def test_csv_is_the_table(tmp_path: Path) -> None:
    example().save(tmp_path)
    back = pd.read_csv(tmp_path / "variance.csv")
    expected = example().table()
    expected["unit"] = expected["unit"].where(expected["unit"].notna(), np.nan)  # csv knows no None
    pd.testing.assert_frame_equal(back, expected, check_dtype=False)


def test_is_frozen_also_inside_its_arrays() -> None:
    result = example()
    with pytest.raises(FrozenInstanceError):
        result.n = 6  # type: ignore[misc]
    for array in (result.value, result.change.low):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match=r"result\.json is missing"):
        Result.load(tmp_path)
    example().save(tmp_path / "exams" / "here")
    with pytest.raises(BadResult, match=rf"one of its exams, such as {tmp_path}/exams/here$"):
        Result.load(tmp_path)
    for call in (Result.load, example().save):
        with pytest.raises(BadArgument, match="folder is 3; expected a path"):
            call(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", [0, 1, 100, 900])
def test_a_cut_file_is_damaged(tmp_path: Path, keep: int) -> None:
    example().save(tmp_path)
    path = tmp_path / "result.json"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadResult, match="damaged"):
        Result.load(tmp_path)


def test_one_changed_digit_is_damaged(tmp_path: Path) -> None:
    example().save(tmp_path)
    path = tmp_path / "result.json"
    text = path.read_text()
    assert "0.3333333333333333" in text
    path.write_text(text.replace("0.3333333333333333", "0.3333333333333334"))
    with pytest.raises(BadResult, match="checksum"):
        Result.load(tmp_path)


@pytest.mark.parametrize(
    "content", [b"[]", b"{}", b'{"schema": "1"}', b'{"schema": 1}', b"\xff\xfe", b"null"]
)
def test_other_content_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(BadResult, match="damaged"):
        Result.load(tmp_path)


def test_newer_schema_says_what_to_do(tmp_path: Path) -> None:
    example().save(tmp_path)
    edit(tmp_path, schema=2)
    with pytest.raises(BadResult, match=r"schema 2.*up to 1.*pip install -U vitscope"):
        Result.load(tmp_path)


def test_fields_that_do_not_fit_are_damaged_even_with_a_right_checksum(tmp_path: Path) -> None:
    from vitscope.results.result import _checksum

    example().save(tmp_path)
    content = json.loads((tmp_path / "result.json").read_text())
    del content["result"]["units"]
    content["sha256"] = _checksum(content)
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(BadResult, match="lacks units"):
        Result.load(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", "{{7}}"), ("version", None), ("provenance", []), ("exam", 3), ("key", {}), ("result", "x")],
)
def test_fields_of_another_type_are_damaged_even_with_a_right_checksum(
    tmp_path: Path, field: str, value: object
) -> None:
    from vitscope.results.result import _checksum

    example().save(tmp_path)
    content = json.loads((tmp_path / "result.json").read_text()) | {field: value}
    content["sha256"] = _checksum(content)
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(BadResult, match=rf"damaged \(.*{field}.*run the exam again"):
        Result.load(tmp_path)


def test_a_result_from_before_a_field_with_a_default_is_read(tmp_path: Path) -> None:
    from vitscope.results.result import _checksum

    example().save(tmp_path)
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["result"].pop("images_digest") == ""
    content["sha256"] = _checksum(content)
    (tmp_path / "result.json").write_text(json.dumps(content))
    assert Result.load(tmp_path).images_digest == ""


def test_another_exams_result_is_refused(tmp_path: Path) -> None:
    example().save(tmp_path)
    with pytest.raises(BadResult, match="'variance', not of 'fourier'"):
        FourierResult.load(tmp_path)


def test_an_unknown_exam_is_refused(tmp_path: Path) -> None:
    from vitscope.results.result import _checksum

    example().save(tmp_path)
    content = json.loads((tmp_path / "result.json").read_text())
    content["exam"] = "palmistry"
    content["sha256"] = _checksum(content)
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(BadResult, match=r"'palmistry'.*fourier"):
        Result.load(tmp_path)


def test_exams_stand_after_the_one_they_name_and_the_others_last(monkeypatch):
    kinds = {"late": "", "b": "a", "a": "first", "first": "", "c": "a", "one": "two", "two": "one"}
    types = {exam: SimpleNamespace(after=after) for exam, after in kinds.items()}
    monkeypatch.setattr("vitscope.results.result._TYPES", types)
    assert list(result_types()) == ["late", "first", "a", "c", "b", "two", "one"]


def test_packed_results_are_read_back_and_their_damage_is_noticed(tmp_path: Path) -> None:
    result = example()
    result.save(tmp_path / "plain")
    result.save(tmp_path / "packed", packed=True)
    assert [file.name for file in (tmp_path / "packed").iterdir()] == [PACKED]
    pair = [encode(Result.load(tmp_path / place)) for place in ("plain", "packed")]
    assert pair[0] == pair[1]
    file = tmp_path / "packed" / PACKED
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    for damaged in (bytes(content), file.read_bytes()[:-9], lzma.compress(bytes(80 << 20))):
        file.write_bytes(damaged)
        with pytest.raises(BadResult):
            Result.load(tmp_path / "packed")
