import copy
import math

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.cases import HUGGING_FACE
from tests.processes import run
from tests.surgery.checks import assert_close, assert_equal
from tests.surgery.fashion import fashion
from vitscope.models import save_model
from vitscope.surgery.temporal import StreamChanged, smooth_stream


def by_hand(probabilities: Tensor, rate: float, previous: int) -> Tensor:
    """The average over the frames seen, one frame and one age at a time."""
    smoothed = []
    for t in range(len(probabilities)):
        ages = [age for age in range(previous + 1) if age <= t]
        weights = [math.exp(-rate * age) for age in ages]
        smoothed.append(
            sum(w / sum(weights) * probabilities[t - a] for w, a in zip(weights, ages, strict=True))
        )
    return torch.stack(smoothed)


@pytest.mark.parametrize(("rate", "previous"), [(0.8, 5), (0.0, 3), (2.5, 1), (0.8, 0), (0.8, 40)])
def test_formula(rate: float, previous: int) -> None:
    stream = torch.rand(9, 2, 4, 3, dtype=torch.float64).softmax(2)
    seen = smooth_stream(stream, rate, previous)
    assert (seen - by_hand(stream, rate, previous)).abs().max() < 1e-15
    assert torch.allclose(seen.sum(2), torch.ones(9, 2, 3, dtype=torch.float64))


def test_gradient_and_limits() -> None:
    stream = torch.rand(6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: smooth_stream(x, 0.8, 3), stream)
    with torch.no_grad():
        assert torch.allclose(smooth_stream(stream, 0.0, 100)[-1], stream.mean(0))
        assert torch.allclose(smooth_stream(stream, 50.0, 5), stream)


class Frames(nn.Module):
    """Says what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.pretrained_cfg = {"input_size": (3, 4, 5)}
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.scale


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 7)])
def test_stream_through_a_model(shape: tuple[int, ...]) -> None:
    """Predictions of images and of every point of a map alike."""
    model = Frames().eval()
    vs.surgery.temporal(model, 0.7, 4)
    logits = 4 * torch.randn(11, *shape, dtype=torch.float64)
    model.calls = 0
    with torch.no_grad():
        seen = torch.stack([model(frame) for frame in logits])
    assert model.calls == 11  # one pass per frame
    wanted = smooth_stream(logits.softmax(2), 0.7, 4)
    assert (seen.exp() - wanted).abs().max() < 1e-14
    vs.surgery.reset(model)
    with torch.no_grad():
        assert torch.equal(
            model(logits[5]), logits[5].log_softmax(1)
        )  # the first frame of a stream is itself


def test_the_newest_weighs_most() -> None:
    model = vs.surgery.temporal(Frames().eval())
    sure = torch.tensor([[30.0, 0.0], [0.0, 30.0]], dtype=torch.float64)
    with torch.no_grad():
        for frame in (sure[:1], sure[:1], sure[:1], sure[:1], sure[:1], sure[1:]):
            said = model(frame)
    weights = [math.exp(-0.8 * age) for age in range(6)]
    assert said.argmax() == 1
    assert abs(float(said.exp()[0, 1]) - weights[0] / sum(weights)) < 1e-9


def test_streams_of_another_size_need_a_reset() -> None:
    model = vs.surgery.temporal(Frames().eval())
    with torch.no_grad():
        model(torch.randn(2, 3))
        with pytest.raises(StreamChanged, match=r"1x3.*2x3.*vs\.surgery\.reset"):
            model(torch.randn(1, 3))
        vs.surgery.reset(model)
        model(torch.randn(1, 3))
    with pytest.raises(vs.surgery.CannotOperate, match="temporal"):
        vs.surgery.reset(Frames())


def test_looking_at_the_model_does_not_disturb_the_stream() -> None:
    model = vs.surgery.temporal(vs.create_model("resnet_mini", pretrained=True).eval())
    frames = frames_of(model)
    said = stream(model, frames)
    vs.surgery.reset(model)
    first = stream(model, frames[:4])
    vs.anatomy(model)
    vs.surgery.Before(model).compare(model)
    assert_equal([*first, *stream(model, frames[4:])], said)


def test_training_neither_smooths_nor_remembers() -> None:
    model = vs.surgery.temporal(Frames().train())
    x = torch.randn(2, 3, dtype=torch.float64)
    assert torch.equal(model(x), x)
    assert int(model.temporal.seen) == 0


def test_with_and_without_gradients_and_in_inference_mode() -> None:
    model = vs.surgery.temporal(Frames().eval())
    logits = torch.randn(3, 2, 4, dtype=torch.float64)
    with torch.inference_mode():
        model(logits[0])
    with torch.no_grad():
        model(logits[1])
    said = model(logits[2])
    assert torch.allclose(said.exp(), smooth_stream(logits.softmax(2))[2])
    said[:, 0].sum().backward()
    assert model.scale.grad is not None
    assert model.scale.grad.isfinite()
    assert not model.temporal.history.requires_grad


def test_saturated_predictions_stay_finite() -> None:
    model = vs.surgery.temporal(Frames().eval().float())
    with torch.no_grad():
        for _ in range(3):
            said = model(torch.tensor([[200.0, 0.0]]))
    assert said.isfinite().all()


def test_named_outputs() -> None:
    case = HUGGING_FACE[0]
    model, images = vs.surgery.temporal(case.model(), example=case.size), case.images(2)
    with torch.no_grad():
        assert torch.allclose(model(images).logits.exp().sum(1), torch.ones(2))
        assert int(model.temporal.seen) == 1


def frames_of(model: nn.Module, count: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 2, *vs.anatomy(model).input_shape, generator=generator)


def stream(model: nn.Module, frames: Tensor) -> list[Tensor]:
    with torch.no_grad():
        return [model(frame) for frame in frames]


def test_saved_and_copied_without_the_frames(tmp_path) -> None:
    model = vs.create_model("resnet_mini", pretrained=True).eval()
    frames = frames_of(model)
    vs.surgery.temporal(model, 0.5, 3)
    said = stream(model, frames)
    assert not any("temporal" in name for name in model.state_dict())
    save_model(model, tmp_path, [str(i) for i in range(10)])
    again = vs.create_model(tmp_path).eval()
    assert vs.surgery.record(again) == vs.surgery.record(model)
    assert_equal(stream(again, frames), said)
    twin = copy.deepcopy(model)
    assert_equal(stream(twin, frames), stream(model, frames))  # a copy goes on where the stream stands
    vs.surgery.reset(twin)
    assert_equal(stream(twin, frames), said)


def test_undone() -> None:
    model = vs.create_model("resnet_mini", pretrained=True).eval()
    frames = frames_of(model)
    said = stream(model, frames)
    stream(vs.surgery.temporal(model), frames)
    vs.surgery.undo(model)
    assert_equal(stream(model, frames), said)


def test_compiled() -> None:
    model = vs.surgery.temporal(vs.create_model("resnet_mini", pretrained=True).eval())
    frames = frames_of(model)
    said = stream(model, frames)
    vs.surgery.reset(model)
    torch._dynamo.reset()
    assert_close(stream(torch.compile(model, backend="aot_eager", fullgraph=True), frames), said)
    torch._dynamo.reset()


def test_exported_programs_remember_frames_too() -> None:
    model = vs.create_model("resnet_mini", pretrained=True).eval()
    frames = frames_of(model)
    vs.surgery.temporal(model)
    with pytest.raises(StreamChanged, match="show it a batch"):
        torch.export.export(copy.deepcopy(model), (frames[0],))
    said = stream(copy.deepcopy(model), frames)
    stream(model, frames[:1])
    vs.surgery.reset(model)
    with torch.no_grad():
        program = torch.export.export(model, (frames[0],)).module()
    assert_close(stream(program, frames), said)


def test_after_an_ensemble() -> None:
    model = vs.surgery.mc_dropout(vs.create_model("vit_mini", pretrained=True)).eval()
    frames = frames_of(model, 3)
    vs.surgery.ensemble(model, 2)
    each = torch.stack(stream(model, frames)).exp()
    vs.surgery.temporal(model)
    assert torch.allclose(torch.stack(stream(model, frames)).exp(), smooth_stream(each), atol=1e-6)


def test_steadies_noisy_predictions_of_real_images() -> None:
    """The same image under fresh noise in every frame: predictions flip less often."""
    model = vs.create_model("resnet_mini", pretrained=True).eval()
    still, _ = fashion(model, 32)
    generator = torch.Generator().manual_seed(0)
    frames = torch.stack([still + 0.8 * torch.randn(still.shape, generator=generator) for _ in range(12)])

    def consistency() -> float:
        said = torch.stack(stream(model, frames)).argmax(2)
        return float((said[1:] == said[:-1]).float().mean())

    alone = consistency()
    vs.surgery.temporal(model)
    assert consistency() > alone


def test_parallel_processes_keep_their_own_frames(tmp_path) -> None:
    """DDP copies the first process's buffers into the others; the frames must not be among them."""
    script = tmp_path / "streams.py"
    script.write_text(
        "import sys, torch, torch.distributed as dist\n"
        "import vitscope as vs\n"
        "dist.init_process_group('gloo')\n"
        "rank = dist.get_rank()\n"
        "torch.manual_seed(0)\n"
        "model = vs.surgery.temporal(vs.create_model('resnet_mini')).eval()\n"
        "parallel = torch.nn.parallel.DistributedDataParallel(model)\n"
        "parallel.eval()\n"
        "frames = torch.randn(4, 2, *vs.anatomy(model).input_shape, generator=torch.Generator().manual_seed(rank))\n"
        "vs.surgery.reset(model)\n"
        "with torch.no_grad():\n"
        "    together = [parallel(frame) for frame in frames]\n"
        "    vs.surgery.reset(model)\n"
        "    alone = [model(frame) for frame in frames]\n"
        "assert all(torch.equal(a, b) for a, b in zip(together, alone))\n"
    )
    done = run(script, processes=2)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def memory_is_nan():
    """What torch leaves unwritten is NaN, as memory may be."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_what_was_in_memory_before_has_no_say(memory_is_nan) -> None:
    model = vs.surgery.temporal(vs.create_model("resnet_mini", pretrained=True).eval())
    frame = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        wanted = model(frame)
        smoothing = model.temporal
        stream = smoothing.set_aside()
        assert torch.equal(model(frame), wanted)
        smoothing.put_back(stream)


def test_a_frame_that_is_not_finite_ends_with_its_stream() -> None:
    model = vs.surgery.temporal(vs.create_model("resnet_mini", pretrained=True).eval())
    frame = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        wanted = model(frame)
        assert model(frame * torch.nan).isnan().all()
        vs.surgery.reset(model)
        assert torch.equal(model(frame), wanted)
