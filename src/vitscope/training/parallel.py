"""One model on many processes: replicated (DDP) or sharded (FSDP), saved the same way in either case.

Replicated, every process holds the whole model and gradients are averaged. Sharded, every process holds a part
of each parameter, of its gradient and of the optimiser's state, and blocks are put together while they run.

All processes do the same thing at the same time, or none of them does: one that fails alone would leave the others
waiting for it. So failures and requests to stop are shared at fixed points.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
import torch.distributed as dist
from timm.layers import convert_sync_batchnorm
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from vitscope.anatomy.taps.preserve import preserved
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import exit_code
from vitscope.core.outputs import class_scores
from vitscope.data import DataConfig
from vitscope.tasks import Detection, task_of

FEW_IMAGES = 2000  # starting processes for them in every epoch takes longer than augmenting them
MOST_LOADERS = 8
_BLOCK_SHARE = 0.01  # what holds less of the parameters is not worth a gathering of its own


class EndedElsewhere(VitscopeError):
    """Another process has met an error and says which; this one has nothing to add."""


@contextmanager
def collectively() -> Iterator[None]:
    """Every process enters; an error that one meets inside ends all, and the first to have one tells it."""
    if not distributed.is_active():
        yield
        return
    failure: VitscopeError | None = None
    try:
        yield
    except VitscopeError as error:
        failure = error
    reports = distributed.gather(None if failure is None else str(failure))
    speaker = next((rank for rank, report in enumerate(reports) if report is not None), None)
    if speaker is None:
        return
    if failure is not None and speaker == distributed.rank():
        raise failure
    raise EndedElsewhere(f"process {speaker} stopped: {reports[speaker]}")


def any_process(asks: int) -> int:
    """The most that a process asks for, 0 if none does; all of them call this, and all get the same answer."""
    if not distributed.is_active():
        return int(asks)
    flag = torch.tensor([int(asks)])
    distributed.all_reduce(flag, op=dist.ReduceOp.MAX, group=distributed.cpu_group())
    return int(flag)


@contextmanager
def errors_said_once() -> Iterator[None]:
    """Say at once why a process ends, since `torchrun` ends it as soon as another has gone; others leave quietly."""
    try:
        yield
    except EndedElsewhere:
        raise SystemExit(2) from None
    except VitscopeError as error:
        print(f"vitscope: {error}", file=sys.stderr, flush=True)
        raise SystemExit(2) from error
    except KeyboardInterrupt as asked:
        if distributed.is_main():
            raise
        raise SystemExit(exit_code(asked)) from None


def device_of_process(asked: str | torch.device | None) -> torch.device:
    """The device asked for, else a GPU if there is one; of several processes each takes its own GPU."""
    device = torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda" and distributed.world_size() > 1:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def replicate(
    model: nn.Module, config: DataConfig, device: torch.device
) -> Callable[[nn.Module], nn.Module] | None:
    """What turns the model into one whose gradients are averaged over processes; None in a single one."""
    if distributed.world_size() == 1:
        return None
    # what a detector uses depends on what there is to learn from in an image
    partly_used = task_of(model).name == Detection.name or _has_unused_parameters(model, config, device)
    devices = [device] if device.type == "cuda" else None

    def wrap(plain: nn.Module) -> nn.Module:
        return DistributedDataParallel(plain, device_ids=devices, find_unused_parameters=partly_used)

    return wrap


def shard(model: nn.Module, device: torch.device) -> None:
    """Let every process keep its part of every parameter (in place); blocks are gathered one at a time."""
    if distributed.world_size() == 1:
        raise VitscopeError(
            "--shard spreads a model over several processes and this is one; "
            "start it with: torchrun --nproc-per-node N -m vitscope.cli.app train ..."
        )
    model.to(memory_format=torch.contiguous_format)  # FSDP takes no other
    world = dist.group.WORLD
    assert world is not None
    mesh = DeviceMesh.from_group(world, device.type)
    for block in _blocks(model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def loader_processes(n_images: int, portable: bool) -> int:
    """How many processes should load images: this process's share of the cores without one, none for a few images.

    Data that may not be `portable` is not sent to processes that would have to be given a copy of it.
    """
    if n_images < FEW_IMAGES or not (portable or multiprocessing.get_start_method() == "fork"):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")) - 1, 0), MOST_LOADERS)


def is_sharded(model: nn.Module) -> bool:
    """Whether `shard` was applied, so that every forward pass needs all processes."""
    return isinstance(model, FSDPModule)


def synchronise_batch_norm(model: nn.Module, device: torch.device) -> nn.Module:
    """Let batch normalisation see the whole batch instead of one process's share of it."""
    if distributed.world_size() == 1 or not any(isinstance(part, _BatchNorm) for part in model.modules()):
        return model
    if device.type == "cpu":
        raise VitscopeError("--sync-bn needs GPUs (torch has no such layer for the CPU); leave it out here")
    return convert_sync_batchnorm(model)


def gathered_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies on the CPU, put together from all processes' parts; every process must call this."""
    return {name: _gathered(tensor) for name, tensor in tensors.items()}


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor in the form of `like`: this process's part of it if that is what `like` is."""
    if isinstance(like, DTensor) and tensor.shape == like.shape:
        return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
    return tensor


def share_buffers(model: nn.Module) -> None:
    """Give every process the main one's running statistics, which each has updated by its own images."""
    if distributed.world_size() == 1:
        return
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


def _gathered(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if isinstance(tensor, DTensor):
        tensor = tensor.full_tensor()
    return tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)


def _blocks(model: nn.Module) -> Iterable[nn.Module]:
    """The members of the model's outermost lists of layers that hold a fair share of its parameters."""
    least = _BLOCK_SHARE * sum(parameter.numel() for parameter in model.parameters())
    for child in model.children():
        if not isinstance(child, nn.ModuleList | nn.Sequential):
            yield from _blocks(child)
            continue
        for block in child:
            if sum(parameter.numel() for parameter in block.parameters()) >= least:
                yield block


def _has_unused_parameters(model: nn.Module, config: DataConfig, device: torch.device) -> bool:
    """Whether the output does not depend on some parameter, for whose gradient DDP would wait in vain."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with preserved(model):  # so that no running statistics move
        output = model(torch.zeros(1, *config.input_size, device=device))
        gradients = torch.autograd.grad(class_scores(model, output, 1).sum(), parameters, allow_unused=True)
    return any(gradient is None for gradient in gradients)
