"""SIGKILL at random moments, and inside writes: started again, a command ends in what it would have been."""

import random
import signal
import time
from pathlib import Path

from tests.prove.faults.commands import COMMANDS, Command, check_words
from tests.prove.faults.workplace import DIES, Whole, fresh, tried, undisturbed
from tests.prove.record import Finding, Trial

MOST_KILLS = 3  # of one command, before it is left alone


def killed_and_compared(
    command: Command, whole: Whole, root: Path, draw: random.Random, once_more: str
) -> None:
    """Kill it up to three times, let it end, compare."""
    out = fresh(command, root, "killed")
    said = []
    for number in range(draw.randint(1, MOST_KILLS)):
        going_on = number > 0 and (out / "run" / "run.json").exists()
        if draw.random() < 0.5:
            at, phase = draw.randint(1, max(1, whole.writes)), draw.choice([0.0, 0.0, 0.0005, 0.003])
            said.append(f"at write {at} of {whole.writes} + {phase} s")
            done = command.run(root / "data", out, going_on, [DIES, str(at), str(phase), str(out / "count")])
        else:
            delay = draw.uniform(0.0, whole.seconds)
            said.append(f"after {delay:.3f} of {whole.seconds:.1f} s")
            job = command.start(root / "data", out, going_on)
            end = time.monotonic() + delay
            while job.running and time.monotonic() < end:
                time.sleep(0.002)
            if job.running:
                job.send(signal.SIGKILL)
            done = job.finish(timeout=300)
        what = f"{command.name}, killed {', '.join(said)}"
        if done.returncode not in (0, -signal.SIGKILL):
            raise Finding(f"{what}: ended with {done.returncode}: {done.stderr[-1500:]}", once_more)
    done = command.go_on(root / "data", out)
    check_words(done, what, once_more)
    if done.returncode != 0:
        raise Finding(f"{what}: going on ended with {done.returncode}: {done.stderr[-1500:]}", once_more)
    command.compared(whole.out, out, what, once_more)


def kills(trial: Trial) -> tuple[int, list[Finding]]:
    """Each command in its turn."""

    def one(root: Path, case: int, draw: random.Random, once_more: str) -> None:
        command = COMMANDS[case % len(COMMANDS)]
        killed_and_compared(command, undisturbed(command, root), root, draw, once_more)

    return tried("kills", one, trial)
