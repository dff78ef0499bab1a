"""Commands that are disturbed: they end in the result of the undisturbed one, or in one clear line."""

from tests.prove.faults import disks, machines
from tests.prove.faults.kills import kills
from tests.prove.record import Kind


def kinds() -> list[Kind]:
    """What is tried, and how often."""
    return [
        Kind(
            "kills", "SIGKILL at random moments and inside writes; the same command until it ends", 52, kills
        ),
        Kind(
            "full-disk", "the disk has room for a part of what is written, then for all of it", 13, disks.full
        ),
        Kind("read-only", "a run folder on a disk that can only be read", 13, disks.read_only),
        Kind("cache-disk", "a cache on a disk that is full or can only be read", 4, disks.read_only_cache),
        Kind("clock", "`time.time` jumps by months, file times by years", 6, machines.clock),
        Kind("clock-of-another", "one cache, two processes, one days ahead", 2, machines.clock_of_another),
        Kind("memory", "memory runs out (RLIMIT_AS)", 12, machines.memory),
        Kind("worker", "a process that loads or corrupts images is killed", 6, machines.loader_worker),
        Kind("rank", "one of two processes of a training dies or hangs", 6, machines.rank),
        Kind("one-folder", "two processes on one run folder", 8, machines.one_folder),
        Kind("one-cache", "two processes on one cache", 4, machines.one_cache),
    ]
