"""What an exam found: a frozen dataclass that can be tabulated, saved and loaded.

On disk a result is a folder with `result.json` (everything, read back without loss) and `<exam>.csv` (the
table, for people and other tools). `result.json` is written last and carries a checksum, so that an
incomplete or edited one is noticed. Where many are kept that nobody reads by hand, `result.json.xz` stands in the
place of both.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments.calling import checked
from vitscope.core.arguments.checking import problem_with
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.core.statistics import Estimate
from vitscope.results.atomic import atomic_write
from vitscope.results.codec import decode, encode
from vitscope.results.plain_files import MOST_BYTES, read_plain
from vitscope.results.provenance import provenance

SCHEMA = 1
PACKED = "result.json.xz"
_TYPES: dict[str, type[Result]] = {}


class _Always(TypedDict):
    schema: int
    exam: str
    key: str
    result: dict[str, Any]
    sha256: str


class _File(_Always, total=False):
    """What `result.json` holds."""

    version: int  # results did not always say so
    weights: str  # nor this
    provenance: dict[str, Any]


class NewerSchema(BadResult):
    """Written by a newer vitscope: whole, but not ours to read or to overwrite."""


@dataclass(frozen=True)
class About:
    """What a page says about an exam, each in a sentence or two."""

    title: str
    shows: str
    papers: str
    misleads: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """Base of every exam's result; a subclass states its name: `class Fourier(Result, exam="fourier")`."""

    exam: ClassVar[str]
    about: ClassVar[About]
    measures: ClassVar[tuple[str, ...]] = ()  # quantities that its tables may hold; (): not known before
    needs: ClassVar[str] = "other data or another model"  # for there to be anything to show
    makes_images: ClassVar[bool] = False  # that `n` counts, and not the data's
    version: ClassVar[int] = 1  # of the exam's definition: raised when it changes, so that it is done again
    after: ClassVar[str] = ""  # the exam that it follows in tables and pages

    model: str
    data: str
    n: int
    seed: int
    images_digest: str = ""  # tells images without a name apart; "": they have one, or it is not known

    def __init_subclass__(cls, exam: str, after: str = "", version: int = 1, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.exam, cls.after, cls.version = exam, after, version
        _TYPES[exam] = cls

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            for array in value if isinstance(value, Estimate) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False

    def table(self) -> pd.DataFrame:
        """Every number as a tidy table (see `vitscope.results.table`)."""
        raise NotImplementedError

    def tables(self) -> dict[str, pd.DataFrame]:
        """What `save` writes as csv, by file name; `table()` under the exam's name."""
        return {self.exam: self.table()}

    def summary(self) -> pd.DataFrame:
        """The rows of `table()` that a person looks at first."""
        return self.table()

    @checked
    def save(
        self,
        folder: str | os.PathLike[str],
        key: str = "",
        packed: bool = False,
        weights: str | None = None,
    ) -> None:
        """Write `result.json` and `<exam>.csv`, or `result.json.xz` alone.

        Args:
            folder: Where to.
            key: Stands for the weights and options that gave it.
            packed: Whether it is compressed.
            weights: Fingerprint of the weights that it is about, if known.
        """
        folder = Path(folder)
        content = {
            "schema": SCHEMA,
            "exam": self.exam,
            "version": self.version,
            "key": key,
            "provenance": provenance(),
            "result": encode(self),
        }
        if weights is not None:
            content["weights"] = weights
        content["sha256"] = _checksum(content)
        if packed:
            text = json.dumps(content, allow_nan=False)
            atomic_write(folder / PACKED, lzma.compress(text.encode()))
            return
        for name, table in self.tables().items():
            atomic_write(folder / f"{name}.csv", table.to_csv(index=False))
        atomic_write(folder / "result.json", json.dumps(content, indent=1, allow_nan=False) + "\n")

    @classmethod
    @checked
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; the type is the one of the exam that wrote it.

        Raises:
            BadResult: Nothing there, damaged, of a newer schema, or of another exam than asked for.
        """
        path = Path(folder) / "result.json"
        content = read_checked(path)
        exam = content["exam"]
        if exam not in _TYPES:
            known = ", ".join(sorted(_TYPES))
            raise BadResult(f"{path} holds a result of '{exam}'; this vitscope knows: {known}")
        kind = _TYPES[exam]
        if not issubclass(kind, cls):
            raise BadResult(
                f"{path} holds a result of '{kind.exam}', not of '{cls.exam}'; load it with Result.load"
            )
        try:
            return decode(kind, content["result"])
        except ValueError as error:
            raise BadResult(f"{path} is damaged ({reason(error)}); run the exam again") from error


def result_types() -> dict[str, type[Result]]:
    """Every exam's result by the exam's name, in the order in which tables and pages show them."""
    ordered: list[str] = []

    def place(exam: str, *following: str) -> None:
        after = _TYPES[exam].after
        known = after in _TYPES and after not in (exam, *following)
        if known and after not in ordered:
            place(after, exam, *following)
        if exam not in ordered:
            ordered.insert(ordered.index(after) + 1 if known else len(ordered), exam)

    for exam in _TYPES:
        place(exam)
    return {exam: _TYPES[exam] for exam in ordered}


def read_checked(path: Path) -> dict[str, Any]:
    """The content of a `result.json`, known to be whole and of a schema this version reads."""
    try:
        content = json.loads(_unpacked(path.with_name(PACKED)) if is_packed(path) else read_plain(path))
    except FileNotFoundError:
        places = (f"exams/*/{path.name}", f"*/{path.name}")
        inside = next(filter(None, (sorted(path.parent.glob(place)) for place in places)), None)
        give = (
            f"one of its exams, such as {inside[0].parent}" if inside else "one exam, as in RUN/exams/fourier"
        )
        raise BadResult(
            f"no result in {path.parent}: {path.name} is missing; give the folder of {give}"
        ) from None
    except (OSError, ValueError, RecursionError, lzma.LZMAError) as error:
        raise BadResult(f"{path} is damaged ({reason(error)}); run the exam again") from error
    check_schema(path, content, SCHEMA)
    if not {"exam", "key", "result"} <= set(content) or content.get("sha256") != _checksum(content):
        raise BadResult(f"{path} is damaged: its content does not match its checksum; run the exam again")
    if problem := problem_with(content, _File):
        raise BadResult(f"{path} is damaged ({problem}); run the exam again")
    return content


def is_packed(path: Path) -> bool:
    """Whether a compressed file stands in the place of this `result.json`."""
    return not path.exists() and path.with_name(PACKED).exists()


def _unpacked(path: Path) -> bytes:
    """The content of a compressed file, which may not be larger than a plain one."""
    decompressor = lzma.LZMADecompressor(memlimit=MOST_BYTES * 2)
    content = decompressor.decompress(read_plain(path), MOST_BYTES)
    if not decompressor.eof:
        raise BadResult(
            f"{path} is cut short, or unpacks to more than {MOST_BYTES} bytes; run the exam again"
        )
    return content


def check_schema(path: Path, content: Any, newest: int) -> None:
    """Refuse what is not a versioned JSON object, or is newer than this version of vitscope reads."""
    schema = content.get("schema") if isinstance(content, dict) else None
    if type(schema) is not int or schema < 1:
        raise BadResult(f"{path} is damaged: it has no schema version; run the command that made it again")
    if schema > newest:
        raise NewerSchema(
            f"{path} has schema {schema}, this vitscope reads up to {newest}; try: pip install -U vitscope"
        )


def _checksum(content: dict[str, Any]) -> str:
    rest = {k: v for k, v in content.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
