"""Every message that vitscope refuses something with, read from its source: `python -m tests.messages`.

What stands in braces is filled in when it is shown.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "vitscope"
ENDINGS = (
    "Error",
    "BadData",
    "BadResult",
    "BadWeights",
    "BadArgument",
    "FileTrouble",
    "CannotOperate",
    "CannotBuild",
)
ENDINGS += (
    "UnknownModel",
    "UnsupportedModel",
    "UnknownArgument",
    "UntrustedCode",
    "NotFinite",
    "PathChanged",
)
ENDINGS += ("TrainingDiverged", "JobFailed", "NewerSchema", "Refused", "Busy")


@dataclass(frozen=True)
class Message:
    """One message and where it stands."""

    file: str
    line: int
    kind: str
    text: str


def messages() -> Iterator[Message]:
    """All that are raised with words of their own."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                kind = ast.unparse(node.exc.func)
                text = _text(node.exc.args[0])
                if text is not None and kind.endswith(ENDINGS):
                    yield Message(str(path.relative_to(SOURCE)), node.lineno, kind, text)


def _text(node: ast.expr) -> str | None:
    """A string as it is written, with `{...}` for what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
        return "".join(str(part) for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else (left or "{...}") + (right or "{...}")
    return None


if __name__ == "__main__":
    for one in messages():
        print(f"{one.file}:{one.line} {one.kind}\n    {one.text}")
