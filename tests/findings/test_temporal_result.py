from pathlib import Path

import numpy as np

from tests.exams.moving_pictures import Known, known_table, level_stream, random_levels
from vitscope.exams import temporal
from vitscope.findings.temporal import QUANTITIES, RATIOS
from vitscope.results import Result


def test_the_table_has_every_number_once_and_comes_back(tmp_path: Path) -> None:
    result = temporal(Known(known_table()), level_stream(random_levels(30, 30)), block=6)
    table = result.table()
    rows = 2 * len(QUANTITIES) + 2 + len(QUANTITIES) + len(RATIOS) + 1
    assert len(table) == rows
    assert not table.duplicated(["quantity", "way", "spatial", "temporal"]).any()
    nll = table[table["quantity"] == "nll"].set_index("temporal")["value"]
    change = table[table["quantity"] == "nll change"]["value"].item()
    assert change == nll[True] - nll[False]
    ends = table[table["quantity"].isin(["nll", "nll change", "nll ratio", "consistency"])]
    assert (ends["low"] < ends["high"]).all()
    assert np.isfinite(ends["value"]).all()
    assert table[table["quantity"] == "throughput"]["n"].unique().tolist() == [30]
    kept = result.replicates()
    assert kept["nll, one pass + temporal"][0] == nll[True]
    assert kept["consistency, one pass"].shape == (1001,)
    result.save(tmp_path)
    again = Result.load(tmp_path)
    assert again.table().equals(table)
    assert result.names == ["one pass", "one pass + temporal"]
    summary = result.summary().set_index(["quantity", "condition"])["value"]
    assert summary["nll", "one pass + temporal"] == nll[True]
    assert summary["throughput", "one pass"] == 1.0
    assert len(summary) == 10
