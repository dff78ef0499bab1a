"""YAML files of `name: value` lines: plain values alone, every name once, and words for what is wrong with one.

A file of its own, so that a command which reads none does not import the reader.
"""

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from vitscope.core.arguments.files import cannot_read
from vitscope.core.errors import BadArgument

_MOST_BYTES = 1 << 20  # a file of options is written by hand


class _Loader(yaml.SafeLoader):
    """YAML without anything but plain values, and with every name once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            plain = isinstance(name, Hashable)
            if not plain or name in seen:
                problem = f"'{name}' stands there twice" if plain else "a name is no plain word"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | os.PathLike[str], what: str, line: str) -> dict[str, Any]:
    """The names and values of a file; `what` names it in messages, `line` shows what a line looks like."""
    source = Path(path)
    try:
        if source.exists() and not source.is_file():
            raise BadArgument(f"cannot read {what}: it is no plain file; write lines such as '{line}'")
        if source.stat().st_size > _MOST_BYTES:
            raise BadArgument(f"cannot read {what}: it is larger than 1 MB; write lines such as '{line}'")
        content = _Loader(source.read_text(encoding="utf-8")).get_single_data()
    except OSError as error:
        raise BadArgument(f"cannot read {what}: {cannot_read(error)}") from error
    except BadArgument:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadArgument(
            f"cannot read {what}: it is no YAML ({_place(error)}); write lines such as '{line}'"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        kind = "names that are no text" if isinstance(content, dict) else f"a {type(content).__name__}"
        raise BadArgument(f"{what} should hold '{line}' lines, not {kind}")
    return content


def _place(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not text in UTF-8"
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "too deeply nested or not a value"
    said = getattr(error, "problem", None) or "cannot be understood"
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}"
