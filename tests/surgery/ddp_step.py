"""One training step of an operated model under DDP; run by `test_parallel.py` with torchrun."""

import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import vitscope as vs

OPERATIONS = {
    "broadcast_context": ("vit_mini", lambda m: vs.surgery.broadcast_context(m, kind="cb_s")),
    "localize": ("vit_mini", lambda m: vs.surgery.localize(m, kernel=3)),
    "uniform_heads": ("vit_mini", lambda m: vs.surgery.uniform_heads(m, variant="B")),
    "pool_tokens": ("vit_mini", lambda m: vs.surgery.pool_tokens(m, class_token="drop")),
    "alternate": ("preresnet_mini", lambda m: vs.surgery.alternate(m, budget=2)),
}


def step(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def main() -> None:
    dist.init_process_group("gloo")
    for operation in sys.argv[1:]:
        compare(operation, dist.get_rank())
    dist.destroy_process_group()


def compare(operation: str, rank: int) -> None:
    """The step of both ranks against the step of one process on the whole batch."""
    name, operate = OPERATIONS[operation]
    torch.manual_seed(0)
    arguments = {"global_pool": "token"} if operation == "pool_tokens" else {}
    model = operate(vs.create_model(name, **arguments)).train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()  # its statistics would differ between halves and whole
    images = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(8)
    alone = copy.deepcopy(model)
    step(alone, images, labels)
    half = slice(4 * rank, 4 * rank + 4)
    step(DistributedDataParallel(model), images[half], labels[half])
    for (path, ours), theirs in zip(model.named_parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(
            ours, theirs, atol=1e-5, rtol=1e-4, msg=lambda text, path=path: f"{path}: {text}"
        )
        both = [torch.empty_like(ours) for _ in range(2)]
        dist.all_gather(both, ours.detach())
        assert torch.equal(*both), path
    if rank == 0:
        print(f"{operation}: equal on both ranks")


if __name__ == "__main__":
    main()
