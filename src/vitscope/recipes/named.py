"""The named recipes, each with its command, its cost and the accuracy to expect.

Each has a YAML twin in `files/`, to copy and change.
"""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError
from vitscope.recipes.recipe import Recipe, unknown_choice


def mini() -> Recipe:
    """Strong augmentation in a short schedule, for the 32-pixel models on two cores.

    Against `hdv`: learning rate 1e-3 over 6 epochs of small batches, and one batch in five is mixed instead
    of all, since there is no time to learn from mixtures alone.

        vitscope train resnet_mini --data fashion-full --recipe mini --out runs/resnet_mini

    Took 35 minutes on one thread of a busy machine (its quiet epochs ran at 260 images/s) and gave 90.2 % on the
    10,000 test images. `vit_mini` needs more: 8 epochs gave 83.8 %, 6 more from there 86.7 % (see its card).
    """
    return Recipe(
        name="mini",
        epochs=6,
        batch_size=32,
        lr=1e-3,
        warmup_epochs=0.25,
        mix_probability=0.2,
        drop_path=0.05,
        clip_norm=1.0,
    )


def hdv() -> Recipe:
    """The recipe of "How Do Vision Transformers Work?", appendix A, on CIFAR.

    AdamW 1.25e-4, weight decay 5e-2 on every parameter, cosine over 300 epochs after 5 of warm-up,
    RandAugment, random erasing, label smoothing, mixup, CutMix, stochastic depth.

        vitscope train vit_tiny_patch16_224 --data cifar100 --img-size 32 --recipe hdv --out runs/vit

    The paper reports 434 images/s for ViT-Ti on CIFAR-100, which makes 305 epochs about 10 hours, and a test
    error of 30.4 % for ViT-S with 2x2 patches and 22.0 % for ResNet-18.
    """
    return Recipe(
        name="hdv",
        epochs=300,
        batch_size=96,
        lr=1.25e-4,
        weight_decay=5e-2,
        decay_all=True,
        warmup_epochs=5,
        warmup_adds=True,
    )


def hdv_imagenet() -> Recipe:
    """`hdv` for ImageNet: batches of 128 instead of 96, all else the same.

        vitscope train alternet_50 --data folder:imagenet --recipe hdv-imagenet --out runs/alternet

    The paper used four GeForce RTX 2080 Ti; its ImageNet accuracies are points of a figure (E.1), without numbers.
    """
    return dataclasses.replace(hdv(), name="hdv-imagenet", batch_size=128)


def weak() -> Recipe:
    """`hdv` with weak augmentation: resizing and cropping only (the same paper's appendix F).

    Label smoothing goes too, being one of what the paper counts as strong augmentation. Its published
    configuration also mirrors images; flip=0.5 does.

        vitscope train vit_tiny_patch16_224 --data cifar100 --img-size 32 --recipe weak --out runs/weak

    As long as `hdv`. Expect a lower training loss, a lower accuracy and over-confident predictions; the paper
    shows them as figures (F.1), without numbers.
    """
    return dataclasses.replace(
        hdv(),
        name="weak",
        auto_augment=None,
        erase=0.0,
        flip=0.0,
        label_smoothing=0.0,
        mixup=0.0,
        cutmix=0.0,
        mix_probability=0.0,
    )


def deit() -> Recipe:
    """DeiT's recipe on ImageNet, which "Scratching Visual Transformer's Back" trains with.

    AdamW 1e-3 for a batch of 1024, scaled in proportion, weight decay 0.05, half a cosine of 300 epochs with 5 of
    warm-up inside, every image three times (repeats=1 for ViT-Ti and ViT-S with Context Broadcasting;
    warmup_epochs=10 for its ViT-B). DeiT also keeps an average of the weights but does not report it.

        torchrun --nproc-per-node 8 -m vitscope.cli.app train vit_small_patch16_224 --data folder:imagenet \
            --recipe deit --out runs/deit-s

    DeiT's authors state less than 3 days on a single computer for DeiT-B. Expect 72.2 % (Ti), 79.9 % (S),
    81.8 % (B); with Context Broadcasting 73.4, 80.8, 82.1 %.
    """
    return Recipe(
        name="deit",
        epochs=300,
        batch_size=1024,
        lr=1e-3,
        lr_per=1024,
        min_lr=1e-5,
        auto_augment="rand-m9-mstd0.5-inc1",
        repeats=3,
        mixup=0.8,
        cutmix=1.0,
    )


def deit_distill() -> Recipe:
    """`deit` with a teacher: the distillation token learns the class that the teacher says.

    A model without such a token learns both from its one output. distill="soft" learns the teacher's whole
    distribution.

        vitscope train deit_small_distilled_patch16_224 --data folder:imagenet --recipe deit-distill \
            --teacher runs/regnet --out runs/deit-s-distilled

    The time of `deit` and a forward pass of the teacher per step. With a RegNetY-16GF as teacher DeiT's
    authors publish models of 74.5 % (Ti), 81.2 % (S), 83.4 % (B).
    """
    return dataclasses.replace(deit(), name="deit-distill", distill="hard")


def cnn() -> Recipe:
    """SGD for convolutional networks: the general CIFAR configuration published with the first paper's code.

    Momentum 0.9 without Nesterov, 0.1, weight decay 5e-4 on every parameter, one epoch of warm-up and 200 more, the
    rate divided by 5 after 60, 120 and 160 of them; images are shifted and mirrored. (Its file for ImageNet
    differs: 90 epochs, batch 256, decay 1e-4, divided by 10 after 30, 60 and 80.)

        vitscope train resnet18 --data cifar100 --img-size 32 --recipe cnn --out runs/resnet18

    At the 320 images/s that the paper reports for ResNet-50 this is 9 hours. The file comes without an accuracy.
    """
    return Recipe(
        name="cnn",
        epochs=200,
        batch_size=128,
        lr=0.1,
        optimizer="momentum",
        weight_decay=5e-4,
        decay_all=True,
        warmup_epochs=1,
        warmup_adds=True,
        milestones=(0.3, 0.6, 0.8),
        decay_rate=0.2,
        auto_augment=None,
        erase=0.0,
        label_smoothing=0.0,
        mixup=0.0,
        cutmix=0.0,
        mix_probability=0.0,
        drop_path=0.0,
    )


def dense() -> Recipe:
    """For a class per pixel, boxes and masks, or answers, on two cores: scaling, cutting, mirroring, changed colours.

    vitscope train vit_mini --data coral --recipe dense --out runs/coral
    """
    return Recipe(
        name="dense",
        epochs=20,
        batch_size=16,
        lr=1e-3,
        weight_decay=0.01,
        warmup_epochs=0.5,
        power=1.0,
        auto_augment=None,
        erase=0.0,
        colour_jitter=0.2,
        label_smoothing=0.0,
        mixup=0.0,
        cutmix=0.0,
        mix_probability=0.0,
        drop_path=0.0,
        clip_norm=1.0,
    )


def ade20k() -> Recipe:
    """UperNet on ADE20K as "Scratching Visual Transformer's Back" trains it: 160K steps of 16 images.

    AdamW 6e-5, weight decay 0.01, 1,500 steps of warm-up, then falling linearly to 0. 127 epochs of 20,210 images are
    160,401 steps; epochs=32 are the 40K of its shorter schedule.

        torchrun --nproc-per-node 8 -m vitscope.cli.app train vit_small_patch16_224 --img-size 512 --data ade20k:PATH \
            --recipe ade20k --out runs/ade20k

    Expect an mIoU of 38.9 (Ti), 43.3 (S), 45.0 (B); with Context Broadcasting 39.0, 43.9, 45.6.
    """
    return dataclasses.replace(
        dense(),
        name="ade20k",
        epochs=127,
        lr=6e-5,
        warmup_epochs=1.2,
        colour_jitter=0.5,
        drop_path=0.1,
        clip_norm=None,
    )


def coco() -> Recipe:
    """Mask R-CNN on COCO as the same paper trains it: 12 epochs, the rate divided by 10 after 8 and 11 of them.

    AdamW 1e-4 for a batch of 16, scaled in proportion, weight decay 0.05.

        torchrun --nproc-per-node 8 -m vitscope.cli.app train vit_tiny_patch16_224 --img-size 1024 --data coco:PATH \
            --recipe coco --out runs/coco

    Expect a box AP of 34.8 and a mask AP of 32.5; with Context Broadcasting 35.1 and 32.8.
    """
    return dataclasses.replace(
        dense(),
        name="coco",
        epochs=12,
        lr=1e-4,
        lr_per=16,
        weight_decay=0.05,
        power=None,
        milestones=(8 / 12, 11 / 12),
        colour_jitter=0.0,
        clip_norm=None,
    )


def vqa_mini() -> Recipe:
    """Questions about small pictures, on two cores. Nothing is mirrored: left and right are asked about.

    vitscope train vilt_mini --data easy-vqa --recipe vqa-mini --out runs/vqa
    """
    return dataclasses.replace(dense(), name="vqa-mini", epochs=6, batch_size=64, flip=0.0, colour_jitter=0.0)


def vqa() -> Recipe:
    """ViLT on VQAv2: 10 epochs of 256 questions, AdamW 1e-4, weight decay 0.01, 1 epoch of warm-up, then linearly to 0.

        torchrun --nproc-per-node 8 -m vitscope.cli.app train hf:dandelin/vilt-b32-mlm --data vqa:PATH --recipe vqa \
            --out runs/vqa

    Expect 71.28 on test-dev; with Context Broadcasting 71.4 to 71.5.
    """
    return dataclasses.replace(
        dense(),
        name="vqa",
        epochs=10,
        batch_size=256,
        lr=1e-4,
        warmup_epochs=1.0,
        flip=0.0,
        colour_jitter=0.0,
        clip_norm=None,
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    "mini": mini,
    "hdv": hdv,
    "hdv-imagenet": hdv_imagenet,
    "weak": weak,
    "deit": deit,
    "deit-distill": deit_distill,
    "cnn": cnn,
    "dense": dense,
    "ade20k": ade20k,
    "coco": coco,
    "vqa-mini": vqa_mini,
    "vqa": vqa,
}


@checked
def get_recipe(recipe: str | os.PathLike[str] | Recipe, **changes: Any) -> Recipe:
    """A recipe by name, from a YAML file or as it is, with the given choices changed; None changes nothing."""
    if not isinstance(recipe, Recipe):
        asked = os.fspath(recipe)
        if asked in RECIPES:
            recipe = RECIPES[asked]()
        elif Path(asked).suffix in (".yaml", ".yml"):
            recipe = Recipe.from_yaml(asked)
        else:
            raise VitscopeError(f"no recipe '{asked}'; there are: {', '.join(RECIPES)}, or give a .yaml file")
    if problem := unknown_choice(changes):
        raise VitscopeError(problem)
    chosen = {name: value for name, value in changes.items() if value is not None}
    return dataclasses.replace(recipe, **chosen)
