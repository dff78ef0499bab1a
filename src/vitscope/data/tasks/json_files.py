"""Lists of records in JSON files, as COCO and VQA publish them: whatever is wrong names the file and the record."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from vitscope.core.arguments.files import reason
from vitscope.core.arguments.kinds import shown
from vitscope.core.errors import BadData

Record = dict[str, Any]
_LARGEST = 1e300  # JSON knows whole numbers of any length; not even infinity is a number


def read_json(path: Path, keys: Sequence[str], what: str) -> Record:
    """An object that holds a list of objects under each of the keys; `what` is what the file should be."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadData(f"cannot read {path} ({reason(error)}); expected {what}") from error
    for key in keys:
        entries = content.get(key) if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise BadData(f"{path} has no list '{key}' of objects; expected {what}")
    return content


def by_id(records: Iterable[Record], key: str, path: Path, what: str) -> dict[int, Record]:
    """Records by their whole number `key`, which has to be there once."""
    found: dict[int, Record] = {}
    for place, record in enumerate(records):
        number = whole_number(record, key, path, f"{what} at place {place}")
        if number in found:
            raise BadData(f"{path}: {what} {number} is there twice; expected every {key} once")
        found[number] = record
    return found


def whole_number(record: Record, key: str, path: Path, what: str) -> int:
    """The whole number under `key`."""
    value = record.get(key)
    if type(value) is not int:
        raise BadData(f"{path}: {what} has {key} {shown(value)}; expected a whole number")
    return value


def text(record: Record, key: str, path: Path, what: str) -> str:
    """The text under `key`, which is not empty."""
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{path}: {what} has {key} {shown(value)}; expected some text")
    return value


def are_numbers(values: Any) -> bool:
    """Whether it is a list of numbers, finite ones."""
    return isinstance(values, list) and all(
        isinstance(v, int | float) and not isinstance(v, bool) and -_LARGEST < v < _LARGEST for v in values
    )
