"""Functions that jobs of the tests call, in whatever process."""

import os
import signal
import sys
import time
from pathlib import Path

from vitscope.core.errors import VitscopeError


def add(a: float, b: float, out: Path) -> dict[str, float]:
    """Every call leaves a line, so that calls can be counted."""
    with open(out / "calls.txt", "a") as file:
        file.write(f"{os.getpid()}\n")
    return {"sum": a + b}


def nap(seconds: float, out: Path) -> int:
    (out / "pid.txt").write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def stubborn(out: Path) -> None:
    """Takes no notice of SIGTERM."""
    from vitscope.studies import runners as processes

    processes._PATIENCE = 0.1
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    nap(3600, out)


def nap_until_killed(out: Path) -> int:
    """The first time; the second time it is done at once."""
    if not (out / "pid.txt").exists():
        nap(3600, out)
    return os.getpid()


def hold(out: Path) -> int:
    """Come back once somebody has left a file."""
    (out / "pid.txt").write_text(str(os.getpid()))
    while not (out / "go").exists():
        time.sleep(0.02)
    return os.getpid()


def shift(out: Path) -> list[float]:
    """When it began and ended, by the clock that all processes share, and in which process."""
    began = time.monotonic()
    time.sleep(0.2)
    return [began, time.monotonic(), os.getpid()]


def look_at(looks: list[dict[str, str]], out: Path) -> list[str]:
    """What a job with exams is asked for."""
    return [look["key"] for look in looks]


def meet(other: str, out: Path) -> bool:
    """Come back once the other job is there too: only jobs that run at the same time do."""
    (out / "here").touch()
    until = time.monotonic() + 900
    while not (out.parent / other / "here").exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def refuse(out: Path) -> None:
    raise VitscopeError("the oven is cold; expected 200 degrees")


def crash(out: Path) -> None:
    print("about to crash", file=sys.stderr)
    raise ZeroDivisionError("no reason")


def nothing_plain(out: Path) -> object:
    return object()


def threads(out: Path) -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


def apply(function, value: float, out: Path) -> float:
    from vitscope.studies import find_function

    return find_function(function)(value)


def double(value: float) -> float:
    return 2 * value


def counted(diary: str, order: str, out: Path) -> str:
    """Writes down when it begins and ends; where its order is there, it takes it away and waits for its end."""
    write_down(diary, f"start {out.name} {os.getpid()}")
    if order and Path(order).exists():
        Path(order).unlink()
        (out / "pid.txt").write_text(str(os.getpid()))
        while True:
            time.sleep(0.1)
    write_down(diary, f"end {out.name} {os.getpid()}")
    return out.name


def write_down(diary: str, line: str) -> None:
    with open(diary, "a") as file:
        file.write(line + "\n")


def fail_at_first(times: int, out: Path) -> int:
    """Fails so often, then it is done."""
    before = len(list(out.glob("failure.*")))
    if before < times:
        (out / f"failure.{before}").touch()
        raise VitscopeError(f"failure number {before + 1}; expected none")
    return before


def interrupted(out: Path) -> None:
    """As Ctrl-C does."""
    raise KeyboardInterrupt
