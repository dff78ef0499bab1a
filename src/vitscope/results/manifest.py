"""`manifest.json` of a run folder: what its weights and training states should be, to the last bit.

    {"schema": 1, "files": {"model.safetensors": ["<sha256>"], "checkpoints/init.safetensors": [...], ...}}

A file is announced before it is replaced: for that moment its entry holds the new sum and the old one, so that a
process which dies in between leaves nothing that looks damaged. A file without an entry, as in folders from before, is
not checked.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.results.atomic import atomic_path, atomic_write
from vitscope.results.plain_files import check_plain, read_plain

FILE = "manifest.json"
SCHEMA = 1
_LOOKS = 5  # a file may be replaced while it is being read

Sums = dict[str, list[str]]


def write_listed(
    folder: Path, files: Mapping[str, bytes | str], keep_as: Mapping[str, str] | None = None
) -> None:
    """Write files of a run folder, by path below it, each atomically, and their sums into its manifest.

    `keep_as` is what the present file of some of them is renamed to.
    """
    kept = keep_as or {}
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    listed = _read(folder)
    now = {name: _present(folder, name, listed) for name in (*contents, *kept.values())}
    new = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    during = {name: [new[name], *now[name]] for name in contents}
    during |= {old: [*now[name], *now[old]] for name, old in kept.items() if now[name]}
    after = {name: [new[name]] for name in contents}
    after |= {old: now[name] for name, old in kept.items() if now[name]}
    with ExitStack() as replaced:  # all are written before the first takes its place, the first one first
        for name in reversed(contents):
            replaced.enter_context(atomic_path(folder / name)).write_bytes(contents[name])
        _write(folder, {**listed, **during})
        for name, old in kept.items():
            if now[name]:
                os.replace(folder / name, folder / old)
    _write(folder, {**listed, **after})


def damage(folder: Path, name: str) -> str | None:
    """What is wrong with a file of a run folder according to its manifest; None if nothing, or if it is not listed."""
    for _ in range(_LOOKS):
        expected = _read(folder).get(name)
        try:
            seen = None if expected is None else file_sum(folder / name)
        except OSError:  # whoever reads it says so
            return None
        if expected is None or seen in expected:
            return None
        if _read(folder).get(name) == expected:
            return (
                f"its SHA-256 is {str(seen)[:12]}..., {FILE} says {expected[0][:12]}...: it has changed since it was "
                f"written; if you have replaced it yourself, remove its line from {FILE}"
            )
    return None


def file_sum(path: Path) -> str:
    """SHA-256 of a file's content."""
    check_plain([path])
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _present(folder: Path, name: str, listed: Sums) -> list[str]:
    """The sum of what is there now, as far as it is not known from the list; empty if nothing is."""
    if not (folder / name).is_file():
        return []
    known = listed.get(name, [])
    return known if len(known) == 1 else [file_sum(folder / name)]


def _read(folder: Path) -> Sums:
    path = folder / FILE
    try:
        content: Any = json.loads(read_plain(path))
        schema, files = content["schema"], content["files"]
        if schema > SCHEMA:
            raise BadResult(
                f"{path} has schema {schema}, this vitscope reads {SCHEMA}: pip install -U vitscope"
            )
        return {str(name): [str(one) for one in sums] for name, sums in files.items() if sums}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BadResult(
            f"{path} is damaged ({reason(error)}); copy it again, or remove it to do without its sums"
        ) from error


def _write(folder: Path, listed: Sums) -> None:
    content = {"schema": SCHEMA, "files": listed}
    atomic_write(folder / FILE, json.dumps(content, indent=1) + "\n")
