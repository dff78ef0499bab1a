"""Clocks that jump, memory that runs out, processes that die or hang, two that want the same folder."""

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.processes import Done, Job
from tests.prove.faults.commands import COMMANDS, NAMED, Command, check_refusal, check_words
from tests.prove.faults.same import differences
from tests.prove.faults.workplace import fresh, tried, undisturbed
from tests.prove.record import Finding, Trial

ODD = str(Path(__file__).with_name("odd_process.py"))
LARGE = [
    Command("a large training", ["train", "resnet_mini", "--batch-size", "3000", "--out", "{out}/run"]),
    Command("a large diagnosis", ["diagnose", "vit_mini", "--batch-size", "2000", "--out", "{out}/run"]),
    Command(
        "a large Hessian",
        ["diagnose", "resnet_mini", "--exams", "hessian", "--hessian.k", "60", "--out", "{out}/run"],
    ),
    Command(
        "a large evaluation",
        [
            "evaluate",
            "vit_mini",
            "--batch-size",
            "2000",
            "--exams",
            "prediction",
            "noise",
            "--out",
            "{out}/run",
        ],
    ),
]


def _ended(done: Done, what: str, once_more: str) -> None:
    check_words(done, what, once_more)
    if done.returncode != 0:
        raise Finding(f"{what}: going on ended with {done.returncode}: {done.stderr[-1500:]}", once_more)


def clock(trial: Trial) -> tuple[int, list[Finding]]:
    """The clock jumps within the process; between a kill and the next start, files are years older or newer."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = COMMANDS[case % len(COMMANDS)]
        whole = undisturbed(command, root)
        out, what = fresh(command, root, "disturbed"), f"{command.name} with a clock that jumps"
        job = command.start(root / "data", out, before=[ODD, "clock", str(draw.randrange(10**6))])
        end = time.monotonic() + draw.uniform(0.3, 1.5) * whole.seconds
        while job.running and time.monotonic() < end:
            time.sleep(0.01)
        if job.running:
            job.send(signal.SIGKILL)
        done = job.finish(300)
        check_words(done, what, once_more)
        if done.returncode > 0:
            raise Finding(f"{what}: ended with {done.returncode}: {done.stderr[-1500:]}", once_more)
        for path in out.rglob("*"):
            when = time.time() + draw.uniform(-10, 10) * 365 * 86400
            os.utime(path, (when, when), follow_symlinks=False)
        _ended(
            command.go_on(root / "data", out, before=[ODD, "clock", str(draw.randrange(10**6))]),
            what,
            once_more,
        )
        command.compared(whole.out, out, what, once_more)

    return tried("clock", one, trial)


def clock_of_another(trial: Trial) -> tuple[int, list[Finding]]:
    """While one process waits in the middle of its work, one whose clock is days ahead uses the same cache."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = NAMED["corruption cache"]
        whole = undisturbed(command, root)
        out, other = fresh(command, root, "first"), fresh(command, root, "second")
        cache = out / "cache"
        job = command.start(root / "data", out, cache=cache)
        _wait(job, lambda: bool(list(cache.rglob("*.npy"))), whole.seconds * draw.uniform(0.5, 1.0))
        if job.running:
            job.send(signal.SIGSTOP)
        days = draw.uniform(2, 900)
        what = f"two processes on one cache, one {days:.0f} days ahead"
        _ended(
            command.run(root / "data", other, before=[ODD, "later", str(days)], cache=cache), what, once_more
        )
        if job.running:
            job.send(signal.SIGCONT)
        _ended(job.finish(300), what, once_more)
        for place in (out, other):
            if found := differences(whole.out / "run", place / "run"):
                raise Finding(f"{what}: {found[:3]}", once_more)

    return tried("clock-of-another", one, trial)


def _wait(job: Job, condition: object, most: float) -> None:
    end = time.monotonic() + most
    while job.running and time.monotonic() < end and not condition():  # type: ignore[operator]
        time.sleep(0.005)


def memory(trial: Trial) -> tuple[int, list[Finding]]:
    """Less memory than is needed: one line; with more, the same command ends as it should."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        large = case % 2 == 0
        command = LARGE[case // 2 % len(LARGE)] if large else COMMANDS[case // 2 % len(COMMANDS)]
        megabytes = draw.uniform(20, 200) if large else draw.uniform(0, 60)
        what = f"{command.name} with {megabytes:.0f} MB more"
        out = fresh(command, root, "disturbed")
        done = command.run(root / "data", out, before=[ODD, "memory", f"{megabytes:.3f}"])
        if done.returncode >= 0:  # else the C library ended it
            check_words(done, what, once_more)
        if done.returncode > 0:
            check_refusal(done, what, once_more)
        if not large:
            whole = undisturbed(command, root)
            _ended(command.go_on(root / "data", out), what, once_more)
            command.compared(whole.out, out, what, once_more)

    return tried("memory", one, trial)


def loader_worker(trial: Trial) -> tuple[int, list[Finding]]:
    """The kernel kills a process that loads or corrupts images: said in one line, and gone on with."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = NAMED["training with workers"]
        if case % 2:
            corrupting = NAMED["corruption cache"]
            command = Command("corruption with workers", [*corrupting.words, "--corruption.workers", "2"])
        whole = undisturbed(command, root)
        out, what = fresh(command, root, "disturbed"), f"{command.name}, one of which is killed"
        job = command.start(root / "data", out)
        _wait(job, lambda: bool(_children(job)), 60)
        time.sleep(draw.uniform(0, 0.3))
        children = _children(job)
        if children:
            victim = draw.choice(children)
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(victim, signal.SIGKILL)
        done = job.finish(300)
        if done.returncode != 0:
            check_refusal(done, what, once_more)
        _ended(command.go_on(root / "data", out), what, once_more)
        command.compared(whole.out, out, what, once_more)

    return tried("worker", one, trial)


def _children(job: Job) -> list[int]:
    pid = job.processes[0].pid
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        named = [int(word) for word in words]
        return [
            child for child in named if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    except OSError:
        return []


def rank(trial: Trial) -> tuple[int, list[Finding]]:
    """Of two processes of one training, one dies or hangs: the other says so and ends; together they go on."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        dies = case % 2 == 0
        train = NAMED["training"]
        command = Command("training by two", [*train.words, "--timeout-minutes", "0.1"], train.again)
        whole = undisturbed(command, root, processes=2)
        out = fresh(command, root, "disturbed")
        what = f"a training by two, of which one {'dies' if dies else 'hangs'}"
        job = command.start(root / "data", out, processes=2)
        victim = draw.randrange(2)
        end = time.monotonic() + draw.uniform(0.0, whole.seconds)
        while job.running and time.monotonic() < end:
            time.sleep(0.005)
        if job.running:
            job.send(signal.SIGKILL if dies else signal.SIGSTOP, victim)
        job.processes[1 - victim].join(120)
        alive = job.processes[1 - victim].exitcode is None
        for process in job.processes:
            if process.exitcode is None:
                process.kill()
        done = job.finish(60)
        if alive:
            raise Finding(f"{what}: the other one still waits after 120 s: {done.stderr[-800:]}", once_more)
        code = job.processes[1 - victim].exitcode
        check_words(done, what, once_more)
        if code != 0:
            check_refusal(Done(code or 0, done.stdout, done.stderr), what, once_more)
        _ended(command.go_on(root / "data", out, processes=2), what, once_more)
        command.compared(whole.out, out, what, once_more)

    return tried("rank", one, trial)


def one_folder(trial: Trial) -> tuple[int, list[Finding]]:
    """Two processes want the same run folder: one gets it, the other says so; nothing is mixed."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = COMMANDS[case % len(COMMANDS)]
        whole = undisturbed(command, root)
        out, what = fresh(command, root, "disturbed"), f"two processes of {command.name} in one folder"
        first = command.start(root / "data", out)
        time.sleep(draw.choice([0.0, draw.uniform(0.0, whole.seconds)]))
        second = command.start(root / "data", out, (out / "run" / "run.json").exists())
        done = [job.finish(300) for job in (first, second)]
        for one_of_them in done:
            check_words(one_of_them, what, once_more)
            if one_of_them.returncode != 0:
                check_refusal(one_of_them, what, once_more)
        if all(each.returncode for each in done):
            _ended(command.go_on(root / "data", out), f"{what}, both refused", once_more)
        command.compared(whole.out, out, what, once_more)

    return tried("one-folder", one, trial)


def one_cache(trial: Trial) -> tuple[int, list[Finding]]:
    """Two processes fill the same cache at the same time, and one may be killed: both give the right numbers."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = NAMED["corruption cache"]
        whole = undisturbed(command, root)
        outs = [fresh(command, root, name) for name in ("first", "second")]
        cache, what = outs[0] / "cache", "two processes on one cache"
        jobs = [command.start(root / "data", out, cache=cache) for out in outs]
        if draw.random() < 0.5:
            time.sleep(draw.uniform(0.0, whole.seconds))
            jobs[1].running and jobs[1].send(signal.SIGKILL)
            what = f"{what}, one of which is killed"
        for number, job in enumerate(jobs):
            done = job.finish(300)
            if done.returncode == -signal.SIGKILL:
                done = command.run(root / "data", outs[number], cache=cache)
            _ended(done, what, once_more)
        for out in outs:
            if found := differences(whole.out / "run", out / "run"):
                raise Finding(f"{what}: {found[:3]}", once_more)
        if found := differences(whole.out / "cache" / "corruptions", cache / "corruptions"):
            raise Finding(f"{what}: the cache: {found[:3]}", once_more)
        shutil.rmtree(cache)

    return tried("one-cache", one, trial)
