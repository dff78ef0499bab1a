"""Who this process is among its peers, its exact share of the work, and sums over all of them.

torchrun --nproc-per-node 4 -m vitscope.cli.app diagnose vit_mini --data fashion

Everything works unchanged in a single process, which is rank 0 of 1. What crosses processes here lives on
the CPU (accumulator states, small values), so the group used for it always speaks gloo, whatever the models
themselves use.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from vitscope.core import peers
from vitscope.core.errors import VitscopeError

_MOST_MINUTES = 365 * 24 * 60.0


def is_active() -> bool:
    """Whether a process group has been started."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if is_active() else 0


def world_size() -> int:
    """Number of processes that share the work."""
    return dist.get_world_size() if is_active() else 1


def is_main() -> bool:
    """Whether this is the one process that prints and writes."""
    return rank() == 0


def shard(n: int) -> range:
    """This process's share of `n` things: each belongs to exactly one process, none is repeated."""
    return range(rank(), n, world_size())


def barrier() -> None:
    """Wait until every process is here."""
    if is_active():
        peers.finish(dist.barrier(group=cpu_group(), async_op=True))


def gather(value: Any) -> list[Any]:
    """Every process's `value` (what JSON can hold), in rank order, on every process."""
    if not is_active():
        return [value]
    content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(world_size())]
    own = torch.tensor([content.numel()])
    peers.finish(dist.all_gather(sizes, own, group=cpu_group(), async_op=True))
    padded = torch.zeros(max(int(size) for size in sizes), dtype=torch.uint8)
    padded[: content.numel()] = content
    contents = [torch.empty_like(padded) for _ in sizes]
    peers.finish(dist.all_gather(contents, padded, group=cpu_group(), async_op=True))
    return [json.loads(bytes(c[: int(size)].tolist())) for c, size in zip(contents, sizes, strict=True)]


def broadcast(value: Any) -> Any:
    """The main process's `value` (what JSON can hold) on every process."""
    return gather(value if is_main() else None)[0]


def all_reduce(tensor: Tensor, op: Any = dist.ReduceOp.SUM, group: dist.ProcessGroup | None = None) -> None:
    """Put the sum (or what `op` says) over all processes in the place of each one's `tensor`."""
    if tensor.device.type == "cpu":
        peers.finish(dist.all_reduce(tensor, op, group, async_op=True))
    else:  # the device waits, not the process
        dist.all_reduce(tensor, op, group)


def broadcast_bytes(content: bytes) -> bytes:
    """The main process's `content` on every process."""
    if not is_active():
        return content
    size = torch.tensor([len(content)])
    peers.finish(dist.broadcast(size, src=0, group=cpu_group(), async_op=True))
    buffer = torch.empty(int(size), dtype=torch.uint8)
    if is_main() and content:
        buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    peers.finish(dist.broadcast(buffer, src=0, group=cpu_group(), async_op=True))
    return buffer.numpy().tobytes()


_gloo: dist.ProcessGroup | None = None


def cpu_group() -> dist.ProcessGroup | None:
    """A group that moves CPU tensors: the default one (None) if it speaks gloo, else one made for this."""
    global _gloo
    if not is_active() or "gloo" in dist.get_backend_config():
        return None
    if _gloo is None:
        group = dist.new_group(backend="gloo")
        assert isinstance(group, dist.ProcessGroup)  # it has every rank, so it is never "not a member"
        _gloo = group
    return _gloo


@contextmanager
def process_group(timeout_minutes: float = 60.0) -> Iterator[None]:
    """Join the job that `torchrun` started, if it did, and leave it at the end; else do nothing.

    Args:
        timeout_minutes: How long to wait for a process that does not answer.
    """
    global _gloo
    if not 0 < timeout_minutes <= _MOST_MINUTES:
        raise VitscopeError(
            f"timeout_minutes is {timeout_minutes}; expected more than 0 and at most {_MOST_MINUTES:.0f}, "
            "for example: --timeout-minutes 30"
        )
    if is_active() or int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield
        return
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=timedelta(minutes=timeout_minutes)
        )
    except (RuntimeError, ValueError) as error:
        raise peers.LostProcess(
            f"process {os.environ['RANK']} did not meet all {os.environ['WORLD_SIZE']} processes of the job within "
            f"{timeout_minutes:g} minutes ({' '.join(str(error).split())[:160]}); see what the others said"
        ) from error
    try:
        with peers.network_errors_explained():
            yield
    finally:
        _gloo = None
        if not peers.is_left_waiting():  # it would wait for those who do not come
            dist.destroy_process_group()
