"""The score of a model, against numbers computed in another way."""

import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.processes import run
from tests.stopping import SignalInside
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.training import evaluate


def test_accuracy_and_loss_by_hand() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).train()
    images, labels = torch.randn(50, 3, 2, 2), torch.arange(50) % 3
    score = evaluate(model, (images, labels), batch_size=7)
    logits = model(images).detach().double().numpy()
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert score.n == 50
    assert score.nll == pytest.approx(-log_p[np.arange(50), labels].mean(), rel=1e-6)
    assert score.accuracy == pytest.approx((logits.argmax(1) == labels.numpy()).mean())
    assert model.training


def test_accuracy_of_one_has_wilsons_interval() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    torch.nn.init.zeros_(model[1].weight)
    score = evaluate(model, (torch.randn(50, 3, 2, 2), model[1].bias.argmax().expand(50)), batch_size=7)
    assert score.accuracy == score.high == 1.0
    assert score.low == pytest.approx(50 / (50 + 1.959964**2), rel=1e-6)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_inside_a_batch(number: int) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).train()
    sender = SignalInside(model, at=2, number=number)
    data = (torch.randn(50, 3, 2, 2), torch.arange(50) % 3)
    with pytest.raises(Stopped), Interruptible() as interrupt:
        evaluate(model, data, batch_size=7, interrupt=interrupt)
    assert (sender.passes, sender.after) == (2, 0)
    assert model.training


ASKED = """
import os, signal, sys
from pathlib import Path
import torch
from torch import nn
from vitscope.core import distributed
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.training import evaluate

passes = 0
def count(*_):
    global passes
    passes += 1
    if passes == 2 and distributed.rank() == 1:  # only one is asked
        os.kill(os.getpid(), signal.SIGTERM)

with distributed.process_group(), Interruptible(patient=True) as interrupt:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    model.register_forward_hook(count)
    data = (torch.zeros(70, 3, 2, 2), torch.arange(70) % 3)
    try:
        evaluate(model, data, batch_size=7, interrupt=interrupt)
    except Stopped:
        Path(sys.argv[1], str(distributed.rank())).write_text(str(passes))
"""


def test_several_processes_end_after_the_same_batch(tmp_path: Path) -> None:
    (tmp_path / "asked.py").write_text(ASKED)
    done = run(tmp_path / "asked.py", tmp_path, processes=2)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["2", "2"]
