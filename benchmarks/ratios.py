"""All ratios of the benchmarks in one table, beside the ones that were measured before.

    python benchmarks/ratios.py                  # runs every program, prints the table, compares; an hour or two
    python benchmarks/ratios.py curvature setup  # these programs alone
    python benchmarks/ratios.py --write          # and puts the numbers into benchmarks/ratios.json and docs/speed.md

A program says what it has measured with `measured(...)`, beside what it prints. A ratio is one of CPU times (or of
bytes) inside one run, so that it means the same on a busy machine, up to a tenth or so. On another processor it may be
another one, where convolutions are set against matrix products: the table says whose it is.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

HERE = Path(__file__).resolve().parent
KEPT = HERE / "ratios.json"
PAGE = HERE.parent / "docs" / "speed.md"
NOISE = 0.15  # between two runs
PLACE = "VITSCOPE_RATIOS"  # the file that programs write to
BEGIN, END = "<!-- ratios -->", "<!-- end of ratios -->"
PROGRAMS: dict[str, tuple[str, ...]] = {
    "one_pass": ("--rounds", "3", "--models", "resnet50@32", "vit_tiny/4@32"),
    "cka_pairs": ("--rounds", "2"),
    "curvature": ("--rounds", "5", "--peers", "resnet18", "--states", "20"),
    "calibration": ("--rounds", "3"),
    "corruptions": ("both",),
    "training": ("resnet18", "vit_tiny_patch4_32", "resnet18_32", "--rounds", "5", "--no-waiting"),
    "surgery": ("--rounds", "5"),
    "setup": (),
    "memory": (),
}


@dataclass(frozen=True)
class Ratio:
    """One number of one program.

    Attributes:
        what: What was done.
        over: What it is compared with.
        value: Its cost over that of the other.
        goal: What it is meant to be at most, or at least; None: shown for comparison.
        side: Whether the goal is the most or the least.
        against: A `limit` (what cannot be done without), or a `peer`, another program for the same.
    """

    what: str
    over: str
    value: float
    goal: float | None = None
    side: Literal["most", "least"] = "most"
    against: Literal["limit", "peer"] = "limit"

    @property
    def met(self) -> bool:
        """Whether it is on the right side of its goal."""
        if self.goal is None:
            return True
        return self.value <= self.goal if self.side == "most" else self.value >= self.goal


def measured(
    what: str,
    over: str,
    value: float,
    goal: float | None = None,
    side: Literal["most", "least"] = "most",
    against: Literal["limit", "peer"] = "limit",
) -> None:
    """Tell the table, if somebody makes one."""
    place = os.environ.get(PLACE)
    if place:
        with open(place, "a") as file:
            file.write(json.dumps(asdict(Ratio(what, over, round(value, 3), goal, side, against))) + "\n")


def run(program: str) -> list[Ratio]:
    """What a program measures, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "ratios")
        place.touch()
        environment = {**os.environ, PLACE: str(place), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, str(HERE / f"{program}.py"), *PROGRAMS[program]]
        if subprocess.run(command, env=environment).returncode:
            raise SystemExit(
                f"{program} failed; alone: python benchmarks/{program}.py {' '.join(PROGRAMS[program])}"
            )
        return [Ratio(**json.loads(line)) for line in place.read_text().splitlines()]


def table(found: Mapping[str, Iterable[Ratio]], before: Mapping[tuple[str, str, str], float]) -> list[str]:
    """Rows of the table in Markdown."""
    lines = ["| program | what | over | ratio | goal | before |", "|---|---|---|---|---|---|"]
    for program, ratios in found.items():
        for one in ratios:
            sign = {"most": "≤", "least": "≥"}[one.side]
            goal = "" if one.goal is None else f"{sign} {one.goal:g}{'' if one.met else ' (missed)'}"
            then = before.get((program, one.what, one.over))
            cells = [
                program,
                one.what,
                one.over,
                f"{one.value:.2f}",
                goal,
                "" if then is None else f"{then:.2f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def worse(found: Mapping[str, Iterable[Ratio]], before: Mapping[tuple[str, str, str], float]) -> list[str]:
    """What has become slower by more than noise, in words."""
    words = []
    for program, ratios in found.items():
        for one in ratios:
            then = before.get((program, one.what, one.over))
            if then is None:
                continue
            less, more = (then, one.value) if one.side == "most" else (one.value, then)
            if more > less * (1 + NOISE):
                words.append(f"{program}: {one.what} over {one.over}: {one.value:.2f}, was {then:.2f}")
    return words


def kept() -> tuple[str, dict[str, list[Ratio]]]:
    """On what processor the table was last written, and what was measured there."""
    if not KEPT.exists():
        return processor(), {}
    content = json.loads(KEPT.read_text())
    programs = {name: [Ratio(**one) for one in ratios] for name, ratios in content["programs"].items()}
    return content["processor"], programs


def write(found: Mapping[str, list[Ratio]]) -> None:
    """Keep the numbers, and put the table into the page."""
    where, before = kept()
    others = before if where == processor() else {}
    merged = {name: found.get(name) or others.get(name, []) for name in PROGRAMS}
    versions = {name: _version(name) for name in ("torch", "timm", "vitscope")}
    content = {
        "versions": versions,
        "processor": processor(),
        "programs": {name: [asdict(one) for one in ratios] for name, ratios in merged.items()},
    }
    KEPT.write_text(json.dumps(content, indent=1) + "\n")
    page = PAGE.read_text()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    used = ", ".join(f"{name} {number}" for name, number in versions.items())
    text = "\n".join(["", f"With {used}, one thread of {processor()}.", "", *_without_before(merged), ""])
    PAGE.write_text(page[:start] + text + page[end:])


def _without_before(found: Mapping[str, list[Ratio]]) -> list[str]:
    return [row.rsplit("|", 2)[0] + "|" for row in table(found, {})]


def processor() -> str:
    """The model of the processor: convolutions over matrix products, and so some ratios, are another on another one."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(PROGRAMS)}; default: all")
    parser.add_argument("--write", action="store_true", help="into benchmarks/ratios.json and docs/speed.md")
    options = parser.parse_args()
    unknown = [name for name in options.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program '{unknown[0]}'; there are: {', '.join(PROGRAMS)}")
    where, programs = kept()
    before = {
        (program, one.what, one.over): one.value for program, ratios in programs.items() for one in ratios
    }
    if where != processor():
        print(
            f"the kept numbers are of {where}, this is {processor()}: ratios are compared with a grain of salt"
        )
        if options.write and options.programs:
            parser.error("a table holds the numbers of one processor: --write all programs")
    found: dict[str, list[Ratio]] = {}
    for program in options.programs or PROGRAMS:
        print(f"== {program} {' '.join(PROGRAMS[program])}", flush=True)
        found[program] = run(program)
        if options.write:  # at once: an interruption loses one program, not all
            write(found)
    print("\n" + "\n".join(table(found, before)))
    slower = worse(found, before)
    if slower:
        print(
            f"\nslower than before by more than {NOISE:.0%}, which noise may do once:\n  "
            + "\n  ".join(slower)
        )
    missed = [f"{program}: {one.what}" for program, ratios in found.items() for one in ratios if not one.met]
    if missed:
        print("\ngoals missed:\n  " + "\n  ".join(missed))
    if options.write:
        print(f"\nwritten: {KEPT.name}, docs/{PAGE.name}")


if __name__ == "__main__":
    main()
