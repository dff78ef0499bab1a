"""Every operation on every family: `python -m tests.surgery_table --write docs/surgery`.

A cell acts in passes without and with gradients, ran backward, save and load (bit-equal); or says why the operation
does not apply. The committed table is what `tests/test_surgery_table.py` holds the code to.
"""

import argparse
import copy
import tempfile
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import torch
import transformers
from torch import nn

import vitscope as vs
from tests.registry import randomise_zeros
from tests.surgery.checks import check_acts, check_backward, check_saved, outputs
from vitscope.core.errors import VitscopeError
from vitscope.models.origin import set_input

WORKS = "works"


@dataclass(frozen=True)
class Family:
    """A small member of a family of models."""

    name: str
    model: str
    size: int = 32
    arguments: tuple[tuple[str, object], ...] = ()

    def make(self) -> nn.Module:
        torch.manual_seed(0)
        if self.model.startswith("hf-config:"):
            model = _hugging_face(self.model.removeprefix("hf-config:"))
        else:
            model = vs.create_model(self.model, num_classes=10, **dict(self.arguments))
        set_input(model, input_size=(3, self.size, self.size))
        randomise_zeros(model)
        return model

    def images(self) -> torch.Tensor:
        return torch.randn(2, 3, self.size, self.size, generator=torch.Generator().manual_seed(1))


def _hugging_face(kind: str) -> nn.Module:
    """A tiny model of random weights, kept in a folder as `hf:FOLDER` reads it."""
    small = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96)
    config, cls = {
        "vit": (
            transformers.ViTConfig(**small, image_size=32, patch_size=8, num_labels=10),
            transformers.ViTForImageClassification,
        ),
        "convnext": (
            transformers.ConvNextConfig(
                hidden_sizes=[16, 32, 48], depths=[2, 2, 2], num_stages=3, num_labels=10
            ),
            transformers.ConvNextForImageClassification,
        ),
    }[kind]
    folder = (
        Path(tempfile.gettempdir()) / f"vitscope-{kind}-{config.hidden_sizes if kind == 'convnext' else 48}"
    )
    if not (folder / "model.safetensors").exists():
        cls(config).save_pretrained(folder)
    return vs.create_model(f"hf:{folder}", pretrained=True)


FAMILIES = [
    Family("ResNet", "resnet_mini"),
    Family("ResNeXt", "resnext_mini"),
    Family("pre-activation ResNet", "preresnet_mini"),
    Family("AlterNet", "alternet_mini"),
    Family("RegNet", "regnetx_002", 64),
    Family("ConvNeXt", "convnext_atto", 64),
    Family("EfficientNet", "efficientnet_b0", 64),
    Family("ViT", "vit_mini"),
    Family(
        "DeiT distilled",
        "deit_tiny_distilled_patch16_224",
        32,
        (("img_size", 32), ("patch_size", 8), ("depth", 4), ("embed_dim", 96)),
    ),
    Family("PiT", "pit_mini"),
    Family("Swin", "swin_mini"),
    Family("Twins", "twins_mini"),
    Family("PVT", "pvt_mini"),
    Family("PVT v2", "pvt_v2_b0", 64),
    Family("Mixer", "mixer_mini"),
    Family("LocalViT", "localvit_mini"),
    Family("ConViT", "convit_mini"),
    Family("LeViT", "levit_128s", 64, (("img_size", 64),)),
    Family("MobileViT", "mobilevit_xxs", 64),
    Family("PyTorch encoder layers", "tests.cases:EncoderViT"),
    Family("torchvision ResNet", "tv:resnet18", 64),
    Family("torchvision ConvNeXt", "tv:convnext_tiny", 64),
    Family("torchvision Swin", "tv:swin_t", 64),
    Family("Hugging Face ViT", "hf-config:vit"),
    Family("Hugging Face ConvNeXt", "hf-config:convnext", 64),
]

Operate = Callable[[nn.Module], nn.Module]


def _lesion(model: nn.Module) -> nn.Module:
    return vs.surgery.lesion(model, [unit for unit in vs.anatomy(model) if unit.removable][-1].name)


OPERATIONS: dict[str, Operate] = {
    "alternate": lambda m: vs.surgery.alternate(m, budget=2),
    "broadcast_context": lambda m: vs.surgery.broadcast_context(m),
    "broadcast_context cb_s, msa": lambda m: vs.surgery.broadcast_context(
        m, kind="cb_s", where="msa", layers="all"
    ),
    "broadcast_context cb_gate": lambda m: vs.surgery.broadcast_context(m, kind="cb_gate"),
    "uniform_heads A": lambda m: vs.surgery.uniform_heads(m, variant="A"),
    "uniform_heads C": lambda m: vs.surgery.uniform_heads(m, variant="C"),
    "squeeze_excite": lambda m: vs.surgery.squeeze_excite(m),
    "extend msa": lambda m: vs.surgery.extend(m, "msa"),
    "extend mlp": lambda m: vs.surgery.extend(m, "mlp"),
    "pool_tokens": lambda m: vs.surgery.pool_tokens(m),
    "localize": lambda m: vs.surgery.localize(m, kernel=3),
    "smooth": lambda m: vs.surgery.smooth(m),
    "mc_dropout": lambda m: vs.surgery.mc_dropout(m, p=0.3),
    "mc_dropout, ensemble": lambda m: vs.surgery.ensemble(vs.surgery.mc_dropout(m, p=0.3), passes=2),
    "temporal": lambda m: vs.surgery.temporal(m),
    "lesion": _lesion,
}


def cell(family: Family, operation: str, model: nn.Module | None = None) -> str:
    """WORKS, or why the operation does not apply; anything else that goes wrong is raised."""
    model = copy.deepcopy(model) if model is not None else family.make()
    images = family.images()
    untouched = outputs(model, images)
    with warnings.catch_warnings():
        warnings.simplefilter("error", vs.surgery.NoEffectWarning)
        try:
            OPERATIONS[operation](model)
        except (VitscopeError, vs.surgery.NoEffectWarning) as refusal:
            for a, b in zip(outputs(model, images), untouched, strict=True):
                assert torch.equal(a, b), "a refused operation left something behind"
            return str(refusal)
    with tempfile.TemporaryDirectory() as folder:
        check_acts(model, images)
        if operation != "temporal":  # its outputs depend on the frames before
            check_backward(model, images)
            check_saved(model, images, Path(folder))
        else:
            vs.surgery.reset(model)
            check_backward(model, images)
            vs.surgery.reset(model)
            check_saved_stream(model, images, Path(folder))
    return WORKS


def check_saved_stream(model: nn.Module, images: torch.Tensor, folder: Path) -> None:
    """Two frames through the model and through its saved twin."""
    vs.models.save_model(model, folder, [str(i) for i in range(10)])
    again = vs.create_model(folder, trust_code=True)
    for frame in (images, images.flip(0)):
        assert torch.equal(outputs(again, frame)[0], outputs(model, frame)[0])


def row(family: Family, operations: Iterable[str] = tuple(OPERATIONS)) -> dict[str, str]:
    """These operations on one family."""
    model = family.make()
    return {operation: cell(family, operation, model) for operation in operations}


def table(families: list[Family], workers: int = 2) -> pd.DataFrame:
    """Families down, operations across."""
    rows = []
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for family, cells in zip(families, pool.map(row, families), strict=True):
            print(f"{family.name}: {list(cells.values()).count(WORKS)} of {len(cells)} work", flush=True)
            rows.append(cells)
    return pd.DataFrame(rows, index=pd.Index([f.name for f in families], name="family"))


def write(folder: Path, cells: pd.DataFrame) -> None:
    """families.csv with the reasons, families.md to read."""
    folder.mkdir(parents=True, exist_ok=True)
    cells.to_csv(folder / "families.csv")
    marks = (cells == WORKS).map(lambda works: "yes" if works else "–")
    lines = [
        "# Which operation works on which family",
        "",
        "`python -m tests.surgery_table --write docs/surgery` ran every operation on a small member of",
        f'{len(cells)} families. A "yes" was seen to act in passes without and with gradients, went through backward,',
        "save and load, and the loaded model gave the same bits. Where there is a dash the operation refused, left the",
        "model as it was, and said why:",
        "[families.csv](families.csv) has the reasons.",
        "",
        "| family | " + " | ".join(marks.columns) + " |",
        "|---" * (len(marks.columns) + 1) + "|",
        *(
            f"| {name} | " + " | ".join(values) + " |"
            for name, values in zip(marks.index, marks.values, strict=True)
        ),
    ]
    (folder / "families.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="folder for families.csv and families.md")
    parser.add_argument("--only", nargs="*", help="families by name")
    options = parser.parse_args()
    families = [f for f in FAMILIES if not options.only or f.name in options.only]
    cells = table(families)
    if options.write:
        write(options.write, cells)
    for name, values in cells.iterrows():
        for operation, said in values.items():
            print(f"{name:<24}{operation:<30}{said}")


if __name__ == "__main__":
    main()
