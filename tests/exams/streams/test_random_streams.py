"""Random passes over a stream of masks are drawn from the seed, and from nothing else."""

import numpy as np
import torch

import vitscope as vs
from tests.exams.every_exam import masked
from vitscope.data.task_data import TaskData


def test_random_passes_over_a_stream_follow_from_the_seed() -> None:
    base = masked(8)
    data = TaskData("segmentation", "masks:small", "test", base.classes, base.reader, None, [4, 4])
    torch.manual_seed(0)
    model = vs.create_model("unet:resnet_mini", num_classes=3, img_size=32).eval()
    with torch.no_grad():
        for (
            parameter
        ) in model.parameters():  # the last norm of a branch begins with 0, and hides what is dropped
            parameter += 0.1 * torch.rand_like(parameter)
    vs.surgery.mc_dropout(model, p=0.3)

    def found(seed: int, disturbed: int, batch_size: int = 4) -> np.ndarray:
        torch.manual_seed(disturbed)
        torch.rand(disturbed)
        table = vs.exams.temporal(model, data, passes=3, seed=seed, batch_size=batch_size).table()
        rows = table[(table["quantity"] == "nll") & table["way"].isin(["mc dropout", "one draw"])]
        return rows["value"].to_numpy(float)

    first = found(1, 3)
    assert first.tolist() == found(1, 8).tolist()
    assert (first != found(2, 3)).all()
    np.testing.assert_allclose(found(1, 3, batch_size=2), first, rtol=1e-4)
