"""The data sets that have a name: what they are, and where prepared ones lie on this machine."""

import os
from dataclasses import dataclass
from pathlib import Path

_FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""


@dataclass(frozen=True)
class Entry:
    """One named data set; every one has the splits train and test."""

    name: str
    classes: tuple[str, ...]
    train: int
    test: int
    licence: str
    embedded: bool = False

    def size(self, split: str) -> int:
        """Number of images of a split."""
        return {"train": self.train, "test": self.test}[split]


CATALOG: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("fashion", _FASHION, 6000, 2000, "MIT", embedded=True),
        Entry("fashion-full", _FASHION, 60000, 10000, "MIT"),
        Entry("cifar10", _CIFAR10, 50000, 10000, "none stated"),
        Entry("cifar100", tuple(_CIFAR100.split()), 50000, 10000, "none stated"),
    )
}
SPLITS = ("train", "test")


def data_root() -> Path:
    """Where prepared data sets lie: `VITSCOPE_DATA`, or a folder in the user's cache."""
    chosen = os.environ.get("VITSCOPE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "vitscope" / "data"
