"""`python -m tests.prove [SECTION ...]`: tries it, shows progress, and keeps what was tried.

Of several sections two are tried at once, each in a process of its own.
"""

import argparse
import importlib
import importlib.util
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.prove.record import FILE, CannotTry, Finding, Kind, Row, Trial, keep, page, read

SECTIONS = ("faults", "input", "security", "scale")
AT_ONCE = 2  # sections, on the two cores that are asked for


def main(words: list[str] | None = None) -> int:
    """Run the sections that are asked for; 1 if there is a finding, 130 after Ctrl-C."""
    options = _read(words)
    if options.write is not None:
        options.write.write_text(page(read(options.file)))
        print(f"written: {options.write}")
        return 0
    chosen = options.sections or [
        name for name in SECTIONS if importlib.util.find_spec(f"tests.prove.{name}")
    ]
    rows: list[Row] = []
    try:
        if len(chosen) > 1:
            rows += _side_by_side(chosen, options)
        else:
            for row in _rows(chosen[0], options):
                rows.append(row)
                if options.case is None:
                    keep([row], options.file)
    except KeyboardInterrupt:
        print(f"\ninterrupted; {len(rows)} rows were kept in {options.file}", file=sys.stderr)
        return 130
    findings = sum(row.findings for row in rows)
    print(f"{sum(row.cases for row in rows)} cases, {findings} findings; kept in {options.file}")
    return 1 if findings else 0


def _read(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all that are there")
    parser.add_argument("--seed", type=int, default=0, help="decides everything that is random")
    parser.add_argument("--cases", type=int, help="so many of each kind; default: as many as in `make prove`")
    parser.add_argument("--only", nargs="+", metavar="KIND", help="these kinds of cases")
    parser.add_argument("--case", type=int, help="only the case of this number, as a finding names it")
    parser.add_argument("--file", type=Path, default=FILE, help="where it is written down")
    parser.add_argument("--write", type=Path, metavar="PAGE.md", help="make the page of it; nothing is tried")
    return parser.parse_args(words)


def _side_by_side(sections: Sequence[str], options: argparse.Namespace) -> list[Row]:
    """All of them, as many at once as `AT_ONCE`; what each has tried is kept when it ends, however it does."""
    same = ["--seed", str(options.seed)]
    same += [] if options.cases is None else ["--cases", str(options.cases)]
    same += ["--only", *options.only] if options.only else []

    def tried(section: str) -> list[Row]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "rows.json")
            command = [sys.executable, "-m", "tests.prove", section, *same, "--file", str(file)]
            code = subprocess.run(command).returncode
            rows = [Row(**row) for row in read(file)]
        if code not in (0, 1, 130):
            raise SystemExit(f"{section} ended with code {code}; alone: python -m tests.prove {section}")
        return rows

    found: list[Row] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for rows in pool.map(tried, sections):
            keep(rows, options.file)
            found += rows
    return found


def _rows(section: str, options: argparse.Namespace) -> Iterator[Row]:
    module = importlib.import_module(f"tests.prove.{section}")
    if hasattr(module, "rows"):
        yield from module.rows(Trial(options.seed, options.cases or 0))
        return
    kinds: list[Kind] = module.kinds()
    names = [kind.name for kind in kinds]
    if unknown := set(options.only or ()) - set(names):
        raise SystemExit(f"{section} has no kind {', '.join(sorted(unknown))}; it has: {', '.join(names)}")
    for kind in kinds:
        if options.only is None or kind.name in options.only:
            yield _tried(section, kind, options)


def _tried(section: str, kind: Kind, options: argparse.Namespace) -> Row:
    """All cases of a kind."""
    began, note, findings, done = time.monotonic(), "", [], 0
    cases = kind.cases if options.cases is None else options.cases
    command = f"python -m tests.prove {section} --only {kind.name} --seed {options.seed} --cases {cases}"

    def tell(number: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{section}: {kind.name}: {number} of {cases}", end="", file=sys.stderr, flush=True)

    try:
        done, findings = kind.run(Trial(options.seed, cases, tell, options.case))
    except CannotTry as why:
        note = f"not tried: {why}"
    except Finding as one:
        done, findings = cases, [one]
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:  # of the cases themselves: nobody should take it for a success
        traceback.print_exc()
        done, findings = cases, [Finding(f"the case itself failed: {type(error).__name__}: {error}")]
    seconds = time.monotonic() - began
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(
        f"{section}: {kind.name}: {done} cases, {len(findings)} findings, {seconds:.0f} s {note}", flush=True
    )
    for finding in findings:
        print(f"  FINDING {finding}\n  once more: {finding.once_more or command}", flush=True)
    return Row(
        section, kind.name, kind.what, done, len(findings), round(seconds, 1), command, options.seed, note
    )


if __name__ == "__main__":
    sys.exit(main())
