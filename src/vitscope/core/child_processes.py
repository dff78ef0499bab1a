"""Processes that end with the one that started them, however that one came to its end.

Otherwise a process that loads images goes on for seconds after a kill, with its memory and its share of the machine.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading

_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2)


def end_with_parent() -> None:
    """Called in a process that `multiprocessing` started: end it when the process that asked for it has ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if sys.platform == "linux" and os.getppid() == parent.pid:
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent.pid:  # it ended before that was said
            os._exit(1)
        return

    def watch() -> None:  # another system, or a server that forks for others and outlives them
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def loader_worker(number: int) -> None:
    """The `worker_init_fn` of a DataLoader: such a process ends with its parent, which alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
