"""A signal ends an exam inside a batch; what was collected before it is kept."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

import vitscope as vs
from tests.exams.factories import small_transformer
from tests.exams.landscape_cases import convolutional, images
from tests.processes import Job
from tests.stopping import SignalInside
from vitscope.engine.resuming import PartialResults
from vitscope.exams import landscape
from vitscope.findings.hessian import HessianResult

SIGNALS = [signal.SIGINT, signal.SIGTERM]
LIMIT, SIZE = 60, 8


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """A process that a shell starts in the background ignores Ctrl-C; not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def diagnosed(model: nn.Module, out: Path) -> dict[str, object]:
    data = vs.load_data("fashion", split="test")
    return vs.diagnose(model, data, ["prediction", "variance"], limit=LIMIT, batch_size=SIZE, out=out)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_shared_pass_ends_inside_a_batch(tmp_path: Path, number: int) -> None:
    model = small_transformer()
    sender = SignalInside(model, at=4, number=number, least=3)
    with pytest.raises(KeyboardInterrupt):
        diagnosed(model, tmp_path)
    sender.remove()
    assert (sender.sent, sender.after) == (True, 0)
    again = SignalInside(model, at=-1, least=3)
    diagnosed(model, tmp_path)
    assert again.passes == 8 - 3  # the three batches before it are not shown again


def test_a_point_of_a_landscape_is_given_up_inside_a_batch(tmp_path: Path) -> None:
    model, options = convolutional(), {"points": 3, "batch_size": 6, "memory_format": "contiguous"}
    counter = SignalInside(model, at=-1, least=3)
    landscape(model, images(), parts=PartialResults(tmp_path, "landscape", "counted"), **options)
    counter.remove()
    sender = SignalInside(model, at=counter.passes - 2, least=3)
    with pytest.raises(KeyboardInterrupt):
        landscape(model, images(), parts=PartialResults(tmp_path, "landscape", "key"), **options)
    sender.remove()
    assert (sender.sent, sender.after) == (True, 0)
    again = SignalInside(model, at=-1, least=3)
    landscape(model, images(), parts=PartialResults(tmp_path, "landscape", "key"), **options)
    assert again.passes < counter.passes


def test_a_signal_while_figures_are_drawn_keeps_the_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    model = small_transformer()
    with monkeypatch.context() as patch:
        patch.setattr("vitscope.engine.diagnose.save_figures", drawn)
        with pytest.raises(KeyboardInterrupt):
            diagnosed(model, tmp_path)
    again = SignalInside(model, at=-1, least=3)
    assert set(diagnosed(model, tmp_path)) == {"prediction", "variance"}
    assert again.passes <= 1  # the batch that anatomy takes the size from
    assert not (tmp_path / "parts").exists()


TERMINATED = """
import os, signal, sys
import torch
from tests.exams import factories
from vitscope.cli.app import main

passes, make = 0, factories.tiny
def watched(**arguments):
    torch.manual_seed(0)
    model = make(**arguments)
    def stop(*_):
        global passes
        passes += 1
        if passes == 20:
            os.kill(os.getpid(), signal.SIGTERM)
    model.register_forward_hook(stop)
    return model
factories.tiny = watched
code = main(["diagnose", "tests.exams.factories:tiny", "--exams", "occlusion", "--limit", "40", "--batch-size", "8",
             "--out", sys.argv[1]])
print("passes", passes, flush=True)
sys.exit(code)
"""


def test_sigterm_outside_of_a_shared_pass_leaves_in_order(tmp_path: Path) -> None:
    (tmp_path / "terminated.py").write_text(TERMINATED)
    done = Job(tmp_path / "terminated.py", tmp_path / "run").finish()
    assert done.returncode == 143, done.stderr
    assert "passes 20\n" in done.stdout
    assert "Traceback" not in done.stderr
    assert "what was finished is kept" in done.stderr
    assert vs.results.Run.open(tmp_path / "run").state == "interrupted"
    assert list((tmp_path / "run" / "parts").rglob("*.safetensors"))  # the batches that were done


@pytest.mark.parametrize("number", SIGNALS)
def test_a_spectrum_keeps_its_finished_batches(tmp_path: Path, number: int) -> None:
    options = {"hessian": {"batches": 3, "k": 1, "max_products": 6, "weight_decay": 0.0}}

    def spectra(out: Path) -> HessianResult:
        found = vs.diagnose(model, images(48), ["hessian"], out=out, options=options)["hessian"]
        assert isinstance(found, HessianResult)
        return found

    model = convolutional()
    counter = SignalInside(model, at=-1, least=4)
    whole = spectra(tmp_path / "whole")
    counter.remove()
    sender = SignalInside(model, at=counter.passes, number=number, least=4)
    with pytest.raises(KeyboardInterrupt):
        spectra(tmp_path / "parts")
    sender.remove()
    assert sender.sent
    again = SignalInside(model, at=-1, least=4)
    assert spectra(tmp_path / "parts").table().equals(whole.table())
    assert again.passes < counter.passes
    assert not (tmp_path / "parts" / "parts").exists()
