"""Records in JSON files that may be damaged, cut short, or something else altogether: read by their types, once."""

import json
from pathlib import Path
from typing import Any

from vitscope.core.arguments.checking import problem_with
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.results.plain_files import read_plain
from vitscope.results.result import check_schema


def read_record(
    path: Path, kind: Any, schema: int | None, advice: str, what: str = "damaged"
) -> dict[str, Any]:
    """The object in a file, if it is of this kind (a `TypedDict`).

    Args:
        path: The file.
        kind: What it holds.
        schema: The newest that is read; None: it has none.
        advice: What to do about one that cannot be used.
        what: Such a one is, in a word.

    Raises:
        FileNotFoundError: There is no such file.
        BadResult: It cannot be used; the message says why, and the advice.
    """
    try:
        content = json.loads(read_plain(path))
    except FileNotFoundError:
        raise
    except BadResult as error:  # a pipe, a folder
        raise BadResult(f"{str(error).partition(';')[0]}; {advice}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadResult(f"{path} is {what} ({reason(error)}); {advice}") from error
    if schema is not None and isinstance(content, dict) and "schema" in content:
        check_schema(path, content, schema)
    if problem := problem_with(content, kind):
        raise BadResult(f"{path} is {what} ({problem}); {advice}")
    found: dict[str, Any] = content
    return found
