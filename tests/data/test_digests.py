from pathlib import Path

import numpy as np
import pytest

from vitscope.core.errors import BadData
from vitscope.data.fetch import check_digest, digest, file_digest, find_file

# NIST's test vector "abc"
SHA256 = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
SHA1 = "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"


def test_digests_of_bytes_arrays_and_files_are_the_standards(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert (
        digest(b"abc") == digest(np.frombuffer(b"abc", np.uint8)) == file_digest(tmp_path / "abc") == SHA256
    )
    check_digest(b"abc", SHA1, "abc")
    check_digest(np.frombuffer(b"abc", np.uint8).reshape(1, 3), SHA256, "abc")


def test_another_content_is_refused() -> None:
    with pytest.raises(BadData, match="x is not the published file"):
        check_digest(b"abd", SHA1, "x")


def test_find_file_searches_deep_and_prefers_earlier_names(tmp_path: Path) -> None:
    (tmp_path / "a" / "train").mkdir(parents=True)
    (tmp_path / "a" / "b").mkdir()
    (tmp_path / "a" / "b" / "train").write_text("x")
    assert find_file(tmp_path, "train.bin", "train") == tmp_path / "a" / "b" / "train"
    (tmp_path / "train.bin").write_text("x")
    assert find_file(tmp_path, "train.bin", "train") == tmp_path / "train.bin"
    with pytest.raises(BadData, match=r"no nothing below"):
        find_file(tmp_path, "nothing")
