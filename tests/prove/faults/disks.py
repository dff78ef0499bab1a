"""A disk that fills up, and one that can only be read: small file systems in memory, mounted for a case."""

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.prove.faults.commands import COMMANDS, NAMED, check_refusal, check_words
from tests.prove.faults.same import differences
from tests.prove.faults.workplace import fresh, tried, undisturbed
from tests.prove.record import CannotTry, Finding, Trial


@contextmanager
def mounted(place: Path, kilobytes: int) -> Iterator[None]:
    """A file system of this size at `place`."""
    place.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def _mount(*words: str) -> None:
    try:
        done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotTry(f"there is no mount here ({error.strerror})") from error
    if done.returncode != 0:
        raise CannotTry(
            "this process may not mount a file system; tests/training/test_disk.py limits files instead"
        )


def _kilobytes(folder: Path) -> int:
    """As a file system counts them: whole pages, and one for each name."""
    return sum(4 + -(-path.stat().st_size // 4096) * 4 for path in folder.rglob("*") if path.is_file())


def full(trial: Trial) -> tuple[int, list[Finding]]:
    """The disk has room for a part of what is written; then there is more, and the same command ends as it should."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = COMMANDS[case % len(COMMANDS)]
        whole = undisturbed(command, root)
        size = max(8, int(_kilobytes(whole.out) * draw.uniform(0.05, 1.1)))
        what = f"{command.name} on a disk of {size} kB"
        out = fresh(command, root, "disturbed")
        with mounted(out, size):
            done = command.run(root / "data", out)
            check_words(done, what, once_more)
            if done.returncode != 0:
                check_refusal(done, what, once_more)
            _mount("-o", "remount,size=512m", str(out))
            done = command.go_on(root / "data", out)
            check_words(done, f"{what}, then with room", once_more)
            if done.returncode != 0:
                raise Finding(f"{what}, then with room: {done.returncode}: {done.stderr[-1500:]}", once_more)
            command.compared(whole.out, out, what, once_more)

    return tried("full-disk", one, trial)


def read_only(trial: Trial) -> tuple[int, list[Finding]]:
    """Nothing can be written: refused before any work, or done without the cache; what was there is as before."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        begun = bool(draw.getrandbits(1))
        command = COMMANDS[case % len(COMMANDS)]
        what = f"{command.name} into a folder that can only be read ({'begun' if begun else 'empty'})"
        out = fresh(command, root, "disturbed")
        with mounted(out, 512 << 10):
            if begun:
                command.run(root / "data", out)
                for path in (out / "run").rglob("result.json"):
                    path.unlink()  # so that there is something to do
            before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
            _mount("-o", "remount,ro", str(out))
            done = command.go_on(root / "data", out)
            if done.returncode == 0:  # a training that was finished has nothing to write
                check_words(done, what, once_more)
                if not begun:
                    raise Finding(f"{what}: it says that all is well: {done.stdout[-500:]}", once_more)
            else:
                check_refusal(done, what, once_more)
            if before != {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}:
                raise Finding(f"{what}: files are not as before", once_more)

    return tried("read-only", one, trial)


def read_only_cache(trial: Trial) -> tuple[int, list[Finding]]:
    """Corrupted images cannot be kept: the same numbers all the same, or one line that says what to type."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = NAMED["corruption cache"]
        whole = undisturbed(command, root)
        out, cache = fresh(command, root, "disturbed"), fresh(command, root, "second") / "cache"
        with mounted(cache, 64 << 10):
            full_one = case % 2 == 0
            _mount("-o", "remount,size=8k" if full_one else "remount,ro", str(cache))
            what = f"corruption with a cache that {'is full' if full_one else 'can only be read'}"
            done = command.run(root / "data", out, cache=cache)
            check_words(done, what, once_more)
            if done.returncode != 0:
                check_refusal(done, what, once_more)
                return
        if found := differences(whole.out / "run", out / "run"):
            raise Finding(f"{what}: {found[:3]}", once_more)

    return tried("cache-disk", one, trial)
