"""`load_data`: images by name, and data of other tasks."""

import importlib
from typing import Any

import numpy as np

from vitscope.core.arguments import checked
from vitscope.core.errors import BadData, alike
from vitscope.data.catalog import CATALOG, open_prepared
from vitscope.data.images import HELD_OUT, ImageData
from vitscope.data.published_sets import embedded_fashion
from vitscope.data.task_data import TaskData

# what is written before a path, and who opens it
_FOLDERS: dict[str, str] = {
    "masks": "masks:open_masks",
    "ade20k": "masks:open_ade20k",
    "camvid": "camvid:open_camvid",
    "camvid-frames": "camvid:open_camvid_frames",
    "coco": "coco:open_coco",
    "vqa": "vqa:open_vqa",
}


@checked
def load_data(
    spec: str,
    split: str = "test",
    fraction: float = 1.0,
    seed: int = 0,
    check: bool = True,
    skip_broken: bool = False,
) -> Any:
    """Labelled images by name: an `ImageData`; or data of another task: a `TaskData`.

    Args:
        spec: "fashion" (in the package), "fashion-full", "cifar10", "cifar100" (prepare them once with
            `vitscope data prepare NAME`), "folder:PATH" (one folder per class, perhaps below train, val or
            test), "frames:PATH" (streams of frames, see docs/streams.md), or "timm:PREFIX/NAME" (what timm's
            create_dataset opens). Data of other tasks is a `TaskData`: "coral", "coral-objects", "coral-stream",
            "trees", "easy-vqa", "masks:PATH", "ade20k:PATH", "camvid:PATH", "camvid-frames:PATH", "coco:PATH",
            "vqa:PATH" (see docs/data.md).
        split: "train" or "test"; folders and timm know more. Of a folder without folders for splits, "held-out" are
            those images that a training does not learn from.
        fraction: share of every class to keep.
        seed: which images that share holds.
        check: refuse a folder with an image file that is empty or a link that leads nowhere; else they are met when
            they are read, like others that are broken. Annotations of COCO that cannot be used are refused, else left
            out.
        skip_broken: read every image file once, and leave out those that cannot be decoded, which are named on stderr.
    """
    check = check and not skip_broken
    found = _held_out(spec, check) if split == HELD_OUT else _open(spec, split, check)
    if skip_broken:
        from vitscope.data.broken_images import passed_over

        whole, found = found, passed_over(found)
        found.broken_left_out = len(found) < len(whole)
    return found.fraction(fraction, seed)


def _held_out(spec: str, check: bool) -> Any:
    from vitscope.data.folder import held_out_of

    return held_out_of(_open(spec, "test", check))


def _open(spec: str, split: str, check: bool) -> ImageData | TaskData:
    kind, colon, rest = spec.partition(":")
    if colon and kind == "folder":
        from vitscope.data.folder import open_folder

        return open_folder(rest, split, check)
    if colon and kind == "frames":
        from vitscope.data.frame_folders import open_frames

        return open_frames(rest, split)
    if colon and kind in _FOLDERS:
        module, _, function = _FOLDERS[kind].partition(":")
        return getattr(importlib.import_module(f"vitscope.data.tasks.{module}"), function)(rest, split, check)
    if colon and kind == "timm":
        from vitscope.data.timm_sets import open_timm

        return open_timm(rest, split)
    if spec not in CATALOG:
        near = alike(spec, CATALOG)
        hint = f"did you mean '{near[0]}'?" if near else "for a folder of images write folder:PATH"
        raise BadData(
            f"no data set '{spec}'; there are {', '.join(CATALOG)}, folder:PATH, frames:PATH, timm:PREFIX/NAME, "
            f"{', '.join(f'{kind}:PATH' for kind in _FOLDERS)}; {hint}"
        )
    entry = CATALOG[spec]
    if split not in entry.splits:
        raise BadData(f"{spec} has no split '{split}'; it has {' and '.join(entry.splits)}")
    if entry.task != "classification":
        from vitscope.data.tasks.prepared import open_task_set

        return open_task_set(entry, split)
    images, labels = embedded_fashion(split) if entry.embedded else open_prepared(entry, split)
    if len(images) != entry.size(split):
        raise BadData(
            f"{entry.name} ({split}) has {len(images)} images instead of {entry.size(split)}; "
            f"type: vitscope data prepare {entry.name}"
        )
    return ImageData(spec, split, entry.classes, np.asarray(labels), images=images)
