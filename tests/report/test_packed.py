import base64
import gzip
import json

import numpy as np
import pytest

from vitscope.report.inline import packed, packed_json, plotly_script


def unpacked(text: str) -> str:
    return gzip.decompress(base64.b64decode(text)).decode()


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "</script><script>alert(1)</script> π"])
def test_comes_back_and_holds_nothing_that_html_reads(text: str) -> None:
    found = packed(text)
    assert unpacked(found) == text
    assert found.replace("+", "").replace("/", "").replace("=", "").isalnum()
    assert packed(text) == found


def test_json_has_null_for_what_is_not_finite() -> None:
    value = {
        "a": np.array([[1.0, np.nan], [np.inf, 1 / 3]]),
        "b": (np.int64(2), None, "x"),
        "c": np.bool_(True),
    }
    assert json.loads(unpacked(packed_json(value))) == {
        "a": [[1.0, None], [None, 0.33333]],
        "b": [2, None, "x"],
        "c": True,
    }


def test_plotly_can_stand_in_a_page() -> None:
    script = plotly_script()
    assert "Plotly" in script
    assert "</script" not in script.lower()
