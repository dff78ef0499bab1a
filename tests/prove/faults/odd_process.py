"""A command in a process with something odd about it: `odd_process.py WHAT VALUE WORDS ...`.

memory VALUE     it may take so many megabytes more than it has
clock VALUE      its clock jumps: `time.time` goes back and forth by up to 90 days; VALUE is the seed
later VALUE      its clock is so many days ahead
"""

import random
import resource
import sys
import time
from pathlib import Path


def limit_memory(megabytes: float) -> None:
    """What the kernel does to a process in a container that is too small, but with an answer."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + int(megabytes * (1 << 20))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def jumping_clock(seed: float) -> None:
    """`time.time` and `time.time_ns` of this process; file times are the system's."""
    draw, real = random.Random(seed), time.time
    time.time = lambda: real() + draw.choice([0, 0, -1, 1]) * draw.uniform(0, 90 * 86400)
    time.time_ns = lambda: int(time.time() * 1e9)


def later_clock(days: float) -> None:
    """A clock that is ahead."""
    real = time.time
    time.time = lambda: real() + days * 86400


ODD = {"memory": limit_memory, "clock": jumping_clock, "later": later_clock}

if __name__ == "__main__":
    what, value, *words = sys.argv[1:]
    sys.argv = ["vitscope", *words]
    from vitscope.cli.app import main
    from vitscope.core.exit import run_program

    ODD[what](float(value))
    run_program(lambda: main(words))  # as the command ends
