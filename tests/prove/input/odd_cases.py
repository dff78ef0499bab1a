"""Right arguments, odd models and images: NaN weights, constant images, one class, one image, other shapes, types."""

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import nn

import vitscope as vs
from tests.fuzz.test_python import functions
from tests.fuzz.wrong_values import allowed, wrong_objects
from tests.prove.record import Finding
from tests.prove.watched import watched
from vitscope.core.arguments.calling import argument_hints

EXAMS = sorted(
    name.removeprefix("exams.")
    for name in functions()
    if name.startswith("exams.") and name not in ("exams.trajectory", "exams.diagnose", "exams.evaluate")
)
SHAPES = [(3, 32, 32)] * 6 + [
    (3, 1, 1),
    (3, 31, 33),
    (3, 16, 64),
    (1, 32, 32),
    (3, 8, 8),
    (4, 32, 32),
    (0, 32, 32),
    (32, 32),
]
OPTIONS: dict[str, list[Any]] = {
    "k": [1, 3, 10**6],
    "batches": [1, 2, 50],
    "points": [3, 5],
    "batch_size": [1, 2, 3, 7, 1000],
    "limit": [1, 2, 5, 10**9, None],
    "seed": [0, 2**31],
    "bins": [1, 15],
    "iterations": [1, 2],
    "span": [1e-12, 1.0, 1e6],
    "weight_decay": [0.0, 1e6],
    "steps": [1, 3],
    "severities": [(1,), (5,)],
    "types": [("fog",), ("contrast", "jpeg_compression"), ("snow",)],
}


class Tiny(nn.Module):
    """A convolution, a residual block, a head; takes any image that has an inside."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv2d(channels, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 1, 1)
        self.head, self.num_classes = nn.Linear(4, classes), classes
        self.pretrained_cfg = {
            "input_size": (channels, 32, 32),
            "mean": (0.5,) * channels,
            "std": (0.5,) * channels,
        }

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        stream = torch.relu(self.stem(images))
        stream = stream + self.block(stream)
        return self.head(stream.mean((2, 3)))


def _model(kind: str, channels: int, classes: int) -> nn.Module:
    torch.manual_seed(0)
    if kind == "vit" and channels == 3:
        from tests.prove.tiny import vit

        model = vit(num_classes=classes)
    else:
        model = Tiny(channels, classes)
    return model.eval()


@st.composite
def examinations(draw: st.DrawFn) -> dict[str, Any]:
    """An exam, a model, images and options; each may be odd, none is of a wrong type."""
    exam = draw(st.sampled_from(EXAMS))
    hints = argument_hints(inspect.unwrap(functions()[f"exams.{exam}"]))
    chosen = draw(
        st.lists(st.sampled_from(sorted(set(hints) & set(OPTIONS)) or ["seed"]), max_size=2, unique=True)
    )
    options = {"points": 3} if exam == "landscape" else {}  # its default is minutes of work
    options |= {name: draw(st.sampled_from(OPTIONS[name])) for name in chosen if name in hints}
    return {
        "exam": exam,
        "options": {name: value for name, value in options.items() if allowed(value, hints[name])},
        "model": draw(st.sampled_from(["vit", "tiny"])),
        "classes": draw(st.sampled_from([1, 2, 3, 3, 10])),
        "count": draw(st.sampled_from([0, 1, 2, 3, 4, 6, 6, 6])),
        "shape": draw(st.sampled_from(SHAPES)),
        "pixels": draw(
            st.sampled_from(
                ["noise", "noise", "zero", "one", "huge", "nan", "inf", "bytes", "half", "double", "complex"]
            )
        ),
        "labels": draw(
            st.sampled_from(["right", "right", "one class", "beyond", "negative", "float", "few", "none"])
        ),
        "weights": draw(
            st.sampled_from(["right", "right", "right", "nan", "inf", "zero", "half", "double", "frozen"])
        ),
    }


def _images(case: dict[str, Any]) -> Any:
    count, shape = case["count"], case["shape"]
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, *shape, generator=generator)
    kinds = {
        "zero": lambda: images * 0,
        "one": lambda: images * 0 + 1,
        "huge": lambda: images * 1e30,
        "nan": lambda: images * math.nan,
        "inf": lambda: images / 0,
        "bytes": lambda: (images * 50 + 128).clamp(0, 255).byte(),
        "half": lambda: images.half(),
        "double": lambda: images.double(),
        "complex": lambda: images.to(torch.complex64),
    }
    images = kinds.get(case["pixels"], lambda: images)()
    classes = case["classes"]
    labels: Any = torch.arange(count) % classes
    labels = {
        "one class": labels * 0,
        "beyond": labels + classes,
        "negative": labels - 5,
        "float": labels.float() + 0.5,
        "few": labels[: count // 2],
    }.get(case["labels"], labels)
    return images if case["labels"] == "none" else (images, labels)


def check_exam(case: dict[str, Any], folder: Path) -> None:
    """Refused, or a result whose numbers are finite where the input is, and whose counts are those of the images."""
    shape = case["shape"]
    model = _model(case["model"], shape[0] if len(shape) == 3 and shape[0] else 3, case["classes"])
    change = {
        "nan": lambda p: p.fill_(math.nan),
        "inf": lambda p: p.fill_(math.inf),
        "zero": lambda p: p.zero_(),
    }.get(case["weights"])
    with torch.no_grad():
        if change is not None:
            change(next(iter(model.parameters())))
    if case["weights"] in ("half", "double"):
        model = model.half() if case["weights"] == "half" else model.double()
    if case["weights"] == "frozen":
        model.requires_grad_(False)
    function = functions()[f"exams.{case['exam']}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VITSCOPE_DATA", str(folder / "data"))  # where corrupted images are kept
        said = watched(
            lambda: function(model, _images(case), **case["options"]), folder, case, "cannot be run on"
        )
    if said.refusal is not None:
        return
    odd = (
        case["weights"] in ("nan", "inf") or case["pixels"] in ("nan", "inf", "complex") or case["count"] == 0
    )
    nothing = (
        getattr(said.value, "units", None) == ()
    )  # found, and nothing said: it need not be passed through
    if odd and not nothing and case["exam"] not in ("cb_scale",):
        raise Finding(f"accepted in silence: {case}: {said.value!r:.300}")
    check_table(said.value, case)


def check_table(result: Any, case: dict[str, Any]) -> None:
    """What is written down of a result is what it should be."""
    table = result.table()
    if "n" in table and case["labels"] != "none" and (table["n"] > max(case["count"], 1) * 10**6).any():
        raise Finding(f"n beyond the images: {case}")
    for quantity in ("accuracy", "ece", "top5"):
        rows = table[table["quantity"] == quantity] if "quantity" in table else table[:0]
        values = rows["value"].dropna()
        if ((values < 0) | (values > 1)).any():
            raise Finding(f"{quantity} of {values.tolist()[:3]}: {case}")


@st.composite
def operations(draw: st.DrawFn) -> tuple[str, str, Any]:
    """An operation, one of its arguments, and a value that its type does not allow."""
    name = draw(st.sampled_from(sorted(vs.surgery.OPERATIONS)))
    function = vs.surgery.OPERATIONS[name]
    declared = argument_hints(inspect.unwrap(function))
    hints = {k: h for k, h in declared.items() if k not in ("return", "model") and not allowed(object(), h)}
    argument = draw(st.sampled_from(sorted(hints)))
    return name, argument, draw(wrong_objects(hints[argument]))


def check_operation(case: tuple[str, str, Any], folder: Path) -> None:
    """Refused by the argument's name, and the model is as before."""
    name, argument, value = case
    model = _model("vit", 3, 3)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    function = vs.surgery.OPERATIONS[name]
    needed = {"extend": {"kind": "msa"}, "lesion": {"unit": "blocks.0"}, "ensemble": {"members": []}}.get(
        name, {}
    )
    said = watched(lambda: function(model, **{**needed, argument: value}), folder, case)
    if said.refusal is None:
        raise Finding(f"accepted: {case}")
    after = model.state_dict()
    if after.keys() != before.keys() or not all(torch.equal(after[key], before[key]) for key in before):
        raise Finding(f"the model was changed: {case}")
