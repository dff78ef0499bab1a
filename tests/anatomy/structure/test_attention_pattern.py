"""How attention looks at the map."""

import vitscope as vs
from tests.registry import build_on_meta


def test_global_queries_against_the_keys_of_a_window_are_windows():
    attending = vs.anatomy(build_on_meta("gcvit_xxtiny")).of_kind("msa")
    by_stage = {grid: [u for u in attending if u.map_shape[1] == grid] for grid in (56, 28, 14, 7)}
    for grid, windows in ((56, 64), (28, 16)):
        found = [(u.attention.pattern, u.attention.window, u.attention.windows) for u in by_stage[grid]]
        assert found == [("window", (7, 7), windows)] * 2  # the second one has global queries
    assert {u.attention.pattern for u in by_stage[14] + by_stage[7]} == {
        "global"
    }  # one window is the whole map
