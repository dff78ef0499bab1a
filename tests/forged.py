"""Results that somebody has changed, checksum and all: their fields are of the right types, and do not fit together."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def forge(run: Path, exam: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """Have `change` change what an exam found in a run, as the file holds it; its path."""
    path = run / "exams" / exam / "result.json"
    content = json.loads(path.read_text())
    change(content["result"])
    del content["sha256"]
    content["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(content))
    return path


def set_to(value: Any, *place: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value at a place inside: set_to(1, "units", 0, "stage")."""

    def change(found: dict[str, Any]) -> None:
        inner: Any = found
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value

    return change
