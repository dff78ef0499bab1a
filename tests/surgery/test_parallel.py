"""Operated models under DDP: two processes give the step that one process gives on the whole batch."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("ddp_step.py")
OPERATED = ("broadcast_context", "localize", "uniform_heads", "pool_tokens", "alternate")


def test_two_processes_take_the_step_of_one() -> None:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(SCRIPT), *OPERATED]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for operation in OPERATED:
        assert f"{operation}: equal on both ranks" in done.stdout
