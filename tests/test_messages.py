"""What vitscope refuses something with: sentences that say what to do, in its own words."""

import re
from functools import cache

from tests.messages import Message, messages

# a way on: what was expected, what to type, what to give instead
WAY_ON = re.compile(r"[;:]|expected|try|use |give |take |there (is|are)|it has|did you mean|\{")
PYTHONS = re.compile(r"\b(invalid|illegal|Error|Exception|NoneType|kwargs?|argv|must be of type)\b")


@cache
def ours() -> list[Message]:
    """Every message of vitscope's own, read from its source when the first test asks."""
    return [one for one in messages() if not one.kind.endswith("Error") or one.kind == "VitscopeError"]


def _where(one: Message) -> str:
    return f"{one.file}:{one.line}: {one.text}"


def test_there_are_hundreds() -> None:
    assert len(ours()) > 400


def test_each_has_a_way_on() -> None:
    assert not [_where(one) for one in ours() if not WAY_ON.search(one.text)]


def test_none_speaks_like_an_interpreter() -> None:
    plain = ((one, re.sub(r"\{[^}]*\}", "", one.text)) for one in ours())
    assert not [_where(one) for one, text in plain if PYTHONS.search(text)]


def test_each_is_one_line_without_a_full_stop() -> None:
    assert not [
        _where(one) for one in ours() if "\n" in one.text or re.search(r"[^.][.!]$", one.text.rstrip())
    ]
