"""What errors and warnings say, whatever the names in them hold."""

from pathlib import Path

import pytest

from vitscope.core.errors import (
    BadArgument,
    BadData,
    FileTrouble,
    VitscopeError,
    did_you_mean,
    memory_in_words,
    warn,
)
from vitscope.data import load_data

STEERING = "a\nb\x1b[31m\x07 \N{LATIN SMALL LETTER E WITH ACUTE}"
WRITTEN_OUT = "a\\nb\\x1b[31m\\x07 \N{LATIN SMALL LETTER E WITH ACUTE}"


@pytest.mark.parametrize("kind", [VitscopeError, BadData, BadArgument, FileTrouble])
def test_what_steers_a_terminal_is_written_out(kind: type[VitscopeError]) -> None:
    assert str(kind(f"no file {STEERING}")) == f"no file {WRITTEN_OUT}"


def test_errors_of_the_system_keep_their_number() -> None:
    error = FileTrouble(28, STEERING)
    assert error.errno == 28
    assert str(error) == WRITTEN_OUT


def test_warnings_too() -> None:
    with pytest.warns(UserWarning, match="31m") as seen:
        warn(STEERING)
    assert str(seen[0].message) == WRITTEN_OUT


def test_a_folder_with_a_line_break_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "cats\nand dogs").mkdir()
    (tmp_path / "cats\nand dogs" / "a.png").touch()
    with pytest.raises(BadData, match=r"cats\\nand dogs/a.png is empty \(0 bytes\)") as refusal:
        load_data(f"folder:{tmp_path}")[0]
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "words",
    [  # not made to happen here: where an allocation fails, glibc serves the thread from elsewhere ever after
        "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 4611686018427387904 bytes. Error code 12 (Cannot allocate memory)",
        "could not create a primitive",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB",
    ],
)
def test_memory_that_runs_out_is_said(words: str) -> None:
    said = memory_in_words(RuntimeError(words))
    assert said is not None
    assert said.startswith("memory ran out")
    assert "batch_size" in said
    assert ("(2.00 GiB more were asked for)" in said) == ("2.00 GiB" in words)


def test_other_errors_are_not_taken_for_it() -> None:
    assert memory_in_words(MemoryError()) is not None
    assert memory_in_words(ValueError("mat1 and mat2 shapes cannot be multiplied")) is None


def test_only_words_that_are_alike_are_suggested() -> None:
    assert did_you_mean("splt", ["split", "seed"]) == "did you mean split?"
    assert did_you_mean("limit", ["split", "seed"]) == "there are: split, seed"
