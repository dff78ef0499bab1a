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
        dist.barrier(group=cpu_group())


def gather(value: Any) -> list[Any]:
    """Every process's `value` (what JSON can hold), in rank order, on every process."""
    if not is_active():
        return [value]
    content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(world_size())]
    dist.all_gather(sizes, torch.tensor([content.numel()]), group=cpu_group())
    padded = torch.zeros(max(int(size) for size in sizes), dtype=torch.uint8)
    padded[: content.numel()] = content
    contents = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(contents, padded, group=cpu_group())
    return [json.loads(bytes(c[: int(size)].tolist())) for c, size in zip(contents, sizes, strict=True)]


def broadcast(value: Any) -> Any:
    """The main process's `value` (what JSON can hold) on every process."""
    return gather(value if is_main() else None)[0]


def broadcast_bytes(content: bytes) -> bytes:
    """The main process's `content` on every process."""
    if not is_active():
        return content
    size = torch.tensor([len(content)])
    dist.broadcast(size, src=0, group=cpu_group())
    buffer = torch.empty(int(size), dtype=torch.uint8)
    if is_main() and content:
        buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    dist.broadcast(buffer, src=0, group=cpu_group())
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
    """Join the job that `torchrun` started, if it did, and leave it at the end; else do nothing."""
    global _gloo
    if is_active() or int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield
        return
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=timedelta(minutes=timeout_minutes)
    )
    try:
        yield
    finally:
        _gloo = None
        dist.destroy_process_group()
