"""The public names and what each is, in docs/api.md: `python -m tests.api_list` writes it."""

import importlib
import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vitscope as vs

PAGE = Path(__file__).parents[1] / "docs/api.md"
HEAD = """# Public names

What `import vitscope as vs` offers. These names keep their meaning from version to version, or say a
version ahead that they will not; names that are not listed, and those with an underscore in front, may
change at any time. `help(vs.diagnose)` shows the arguments of a name one by one. On the command line:
`vitscope --help`.
"""
_LONGEST = 120


def public() -> Iterator[tuple[str, dict[str, Any]]]:
    """The names of the package, then of each room of it that has names of its own."""
    places = {name: where.partition(":") for name, where in vs._WHERE.items()}
    top = {
        n: getattr(importlib.import_module(m), attribute)
        for n, (m, _, attribute) in places.items()
        if attribute
    }
    yield "vs", top
    for name in sorted(["anatomy", *(name for name, (_, _, attribute) in places.items() if not attribute)]):
        room = importlib.import_module(f"vitscope.{name}")
        inside = {inner: getattr(room, inner) for inner in room.__all__ if inner not in top}
        yield f"vs.{name}", {n: v for n, v in inside.items() if not isinstance(v, types.ModuleType)}


def _is_called(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value)


def call(name: str, value: Any) -> str:
    """How it is called: names and defaults, without types."""
    if not _is_called(value) or (inspect.isclass(value) and issubclass(value, BaseException)):
        return name
    signature = inspect.signature(value)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    text = f"{name}{signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)}"
    return text if len(text) <= _LONGEST else f"{name}({bare[0].name}, ...)"


def sentence(value: Any) -> str:
    """The first of its docstring; of what is no function or class, what it is."""
    if not _is_called(value):
        if isinstance(value, dict | list | tuple | set):
            return f"a {type(value).__name__} of {len(value)}"
        return f"`{value}`"
    parts = (inspect.getdoc(value) or "").split("\n\n")
    first = (
        parts[1] if isinstance(value, types.ModuleType) else parts[0]
    )  # before it, how the module is called
    return " ".join(first.split()).replace("|", "\\|")


def page() -> str:
    """All of it."""
    parts = [HEAD]
    for place, names in public():
        rows = [
            f"| `{call(name, value)}` | {sentence(value)} |"
            for name, value in sorted(names.items(), key=lambda pair: pair[0].lower())
        ]
        parts.append("\n".join([f"## `{place}`\n", "| name | what it is |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
