"""Numbers of the exams `passes` and `temporal`; run by `test_temporal.py` in its own process, and in two."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.exams.factories import small_transformer
from tests.exams.moving_pictures import Known, known_table, level_stream, random_levels
from vitscope import load_data
from vitscope.core import distributed
from vitscope.exams import passes, temporal


def numbers() -> dict[str, Any]:
    stream = temporal(Known(known_table()), level_stream(random_levels(9, 4, 12, 7, 5)), block=3)
    average = passes(small_transformer(), load_data("fashion"), limit=26, batch_size=8, passes=(1, 3))
    return {
        "stream": [stream.value.tolist(), stream.low.tolist(), stream.high.tolist()],
        "ratio": [stream.ratio[1].tolist(), stream.ratio_high[1].tolist(), stream.labels[:1].tolist() * 5],
        "trace": stream.trace.tolist(),
        "passes": [average.value[:, :-1].tolist(), average.high[:, :-1].tolist()],
        "counts": [stream.n, stream.blocks, average.n, average.batches],
    }


if __name__ == "__main__":
    with distributed.process_group():
        found = numbers()
        Path(sys.argv[1], f"{distributed.rank()}.json").write_text(json.dumps(found))
