"""Operated models under DDP: two processes give the step that one process gives on the whole batch."""

from pathlib import Path

from tests.processes import run

SCRIPT = Path(__file__).with_name("ddp_step.py")
OPERATED = ("broadcast_context", "localize", "uniform_heads", "pool_tokens", "alternate")


def test_two_processes_take_the_step_of_one() -> None:
    done = run(SCRIPT, *OPERATED, processes=2)
    assert done.returncode == 0, done.stderr[-2000:]
    for operation in OPERATED:
        assert f"{operation}: equal on both ranks" in done.stdout
