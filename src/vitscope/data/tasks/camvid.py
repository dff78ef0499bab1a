"""`camvid:PATH` and `camvid-frames:PATH`: streets from a driving car.

    PATH/train  PATH/trainannot  PATH/val  PATH/valannot  PATH/test  PATH/testannot    SegNet's: 0 .. 10, and 11 is void
    PATH/701_StillsRaw_full/0001TP_006690.png  PATH/LabeledApproved_full/0001TP_006690_L.png    the original: 32 colours

Both have eleven classes here. Of the original, the 32 kinds are joined as usual, and its 701 stills are split as
SegNet's 367, 101 and 233 are: by the number of the still in its video. Files `train.txt`, `val.txt`, `test.txt` with a
name per line count for more.

    PATH/frames/SEQUENCE/*.png     all frames of the videos, beside one of the above

is `camvid-frames:PATH`: a frame without a mask belongs to the split of the next one with a mask, so that whoever looks
back over the last frames never looks into another split. Frames follow one another by the numbers in their names.
"""

from pathlib import Path

from vitscope.core.errors import BadData
from vitscope.data.frame_folders import frames_in, natural_order
from vitscope.data.task_data import NO_CLASS, TaskData
from vitscope.data.tasks.masks import MaskFolder, folder_of, pairs
from vitscope.data.tasks.numbering import Numbering, by_colour, by_number, read_lines

CLASSES = (
    "Sky", "Building", "Pole", "Road", "Pavement", "Tree", "SignSymbol", "Fence", "Car", "Pedestrian", "Bicyclist",
)  # fmt: skip
VOID = len(CLASSES)
STILLS, COLOURED = "701_StillsRaw_full", "LabeledApproved_full"

# The 32 kinds of the original, their colours, and the class that each is joined to.
_KINDS = """
    64 128 64 Animal Pedestrian          192 0 128 Archway Building           0 128 192 Bicyclist Bicyclist
    0 128 64 Bridge Building             128 0 0 Building Building            64 0 128 Car Car
    64 0 192 CartLuggagePram Pedestrian  192 128 64 Child Pedestrian          192 192 128 Column_Pole Pole
    64 64 128 Fence Fence                128 0 192 LaneMkgsDriv Road          192 0 64 LaneMkgsNonDriv Road
    128 128 64 Misc_Text SignSymbol      192 0 192 MotorcycleScooter Bicyclist  128 64 64 OtherMoving Car
    64 192 128 ParkingBlock Pavement     64 64 0 Pedestrian Pedestrian        128 64 128 Road Road
    128 128 192 RoadShoulder Pavement    0 0 192 Sidewalk Pavement            192 128 128 SignSymbol SignSymbol
    128 128 128 Sky Sky                  64 128 192 SUVPickupTruck Car        0 0 64 TrafficCone Pole
    0 64 64 TrafficLight SignSymbol      192 64 128 Train Car                 128 128 0 Tree Tree
    192 128 192 Truck_Bus Car            64 0 64 Tunnel Building              192 192 0 VegetationMisc Tree
    0 0 0 Void Void                      64 192 0 Wall Building
"""


def colours() -> dict[tuple[int, int, int], int]:
    """The class of each colour of the original."""
    words = _KINDS.split()
    rows = [words[i : i + 5] for i in range(0, len(words), 5)]
    number = {name: k for k, name in enumerate(CLASSES)} | {"Void": NO_CLASS}
    return {(int(red), int(green), int(blue)): number[to] for red, green, blue, _, to in rows}


def split_of(still: str) -> str:
    """The split of a still of the original, by its name: 0001TP_006690."""
    sequence, _, number = still.partition("_")
    digits = "".join(letter for letter in number if letter.isdigit())
    place = int(digits) if digits else -1
    if sequence == "Seq05VD" or (sequence == "0001TP" and place >= 8550):
        return "test"
    return "val" if sequence == "0016E5" and 7959 <= place <= 8159 else "train"


def open_camvid(path: str, split: str, check: bool = True) -> TaskData:
    """CamVid in SegNet's layout or in its original one."""
    pictures, masks, numbering = _labelled(path, split, "camvid", check)
    reader = MaskFolder(pictures, masks, numbering)
    return TaskData("segmentation", f"camvid:{path}", split, CLASSES, reader)


def open_camvid_frames(path: str, split: str, check: bool = True) -> TaskData:
    """CamVid's videos, of which some frames have masks: a stream for each sequence, and for each gap in it."""
    _labelled(path, split, "camvid-frames", check)  # refuses a split that is not there
    frames_root = (
        folder_of(path, "camvid-frames", "frames/SEQUENCE/*.png and CamVid's stills and masks") / "frames"
    )
    if not frames_root.is_dir():
        raise BadData(
            f"camvid-frames:{path}: there is no folder {frames_root}; expected frames/SEQUENCE/*.png in it"
        )
    known: dict[str, tuple[str, str]] = {}  # by name: split and mask
    numbering = by_number(len(CLASSES), void=VOID)
    for other in _splits(path):
        pictures, masks, numbering = _labelled(path, other, "camvid-frames", check)
        known |= {Path(p).stem: (other, mask) for p, mask in zip(pictures, masks, strict=True)}
    runs: list[list[tuple[str, str | None]]] = []
    met = set()
    for folder in sorted(
        (f for f in frames_root.iterdir() if f.is_dir()), key=lambda f: natural_order(f.name)
    ):
        runs.append([])
        waiting: list[tuple[str, str | None]] = []  # for the next one with a mask
        for frame in frames_in(folder):
            of, mask = known.get(Path(frame).stem, (None, None))
            waiting.append((frame, mask))
            if of is None:
                continue
            met.add(Path(frame).stem)
            if of == split:
                runs[-1] += waiting
            else:
                runs.append([])
            waiting = []
    runs = [run for run in runs if run]
    if missing := [still for still, (of, _) in known.items() if of == split and still not in met]:
        raise BadData(
            f"camvid-frames:{path}: the still {missing[0]} is not among the frames in {frames_root} "
            f"({len(missing)} are not); expected a frame of the same name"
        )
    frames, labels = zip(*(pair for run in runs for pair in run), strict=True)
    reader = MaskFolder(frames, labels, numbering)
    return TaskData(
        "segmentation", f"camvid-frames:{path}", split, CLASSES, reader, lengths=[len(run) for run in runs]
    )


def _splits(path: str) -> tuple[str, ...]:
    root = Path(path).expanduser()
    names = ("train", "val", "test")
    return names if (root / COLOURED).is_dir() else tuple(n for n in names if (root / f"{n}annot").is_dir())


def _labelled(
    path: str, split: str, kind: str, check: bool
) -> tuple[tuple[str, ...], tuple[str, ...], Numbering]:
    root = folder_of(path, kind, f"train and trainannot, or {STILLS} and {COLOURED}")
    if split not in ("train", "val", "test"):
        raise BadData(f"{kind}:{path} has no split '{split}'; it has train, val and test")
    if (root / COLOURED).is_dir() and (root / STILLS).is_dir():
        pictures, masks = pairs(root / STILLS, root / COLOURED, check, lambda stem: f"{stem}_L")
        stems = [Path(picture).stem for picture in pictures]
        chosen = _listed(root / f"{split}.txt", stems) or {stem for stem in stems if split_of(stem) == split}
        kept = [i for i, stem in enumerate(stems) if stem in chosen]
        if not kept:
            raise BadData(
                f"{kind}:{path}: none of {len(stems)} stills is of the split '{split}'; write {split}.txt"
            )
        numbering = by_colour(colours(), "CamVid's label_colors.txt")
        return tuple(pictures[i] for i in kept), tuple(masks[i] for i in kept), numbering
    for folder in (split, f"{split}annot"):
        if not (root / folder).is_dir():
            raise BadData(
                f"{kind}:{path}: there is no folder {root / folder}; expected {split} and {split}annot, "
                f"or {STILLS} and {COLOURED}"
            )
    pictures, masks = pairs(root / split, root / f"{split}annot", check)
    return pictures, masks, by_number(len(CLASSES), void=VOID)


def _listed(path: Path, stems: list[str]) -> set[str]:
    """The names in a file, if there is one."""
    if not path.is_file():
        return set()
    names = [Path(line.split()[0]).stem for line in read_lines(path)]
    for number, name in enumerate(names, 1):
        if name not in stems:
            raise BadData(
                f"{path}, line {number}: there is no still '{name}'; expected a name such as {stems[0]}"
            )
    return set(names)
