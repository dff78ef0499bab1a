"""Run folders as an older version of vitscope would have left them."""

import hashlib
import json
from pathlib import Path

COMMAND = "vitscope diagnose vit_mini --exams all --out runs <old>"


def age(run: Path, exam: str, field: str, command: str = COMMAND) -> None:
    """Take a field out of a stored result, whole and with the checksum that belongs to it."""
    path = run / "exams" / exam / "result.json"
    content = json.loads(path.read_text())
    del content["result"][field], content["sha256"]
    content["provenance"]["command"] = command
    content["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(content))
