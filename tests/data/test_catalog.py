from pathlib import Path

import pytest

from vitscope.data.catalog import CATALOG, data_root


def test_every_entry_has_as_many_different_classes_as_its_name_says() -> None:
    assert {name: len(set(entry.classes)) for name, entry in CATALOG.items()} == {
        "fashion": 10,
        "fashion-full": 10,
        "cifar10": 10,
        "cifar100": 100,
    }


def test_class_names_are_torchvisions() -> None:
    from torchvision.datasets import FashionMNIST

    assert list(CATALOG["fashion"].classes) == FashionMNIST.classes


def test_cifar_class_names_are_in_the_official_alphabetical_order() -> None:
    for name in ("cifar10", "cifar100"):
        assert list(CATALOG[name].classes) == sorted(CATALOG[name].classes)


def test_where_data_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", "~/images")
    assert data_root() == Path.home() / "images"
    monkeypatch.delenv("VITSCOPE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root() == tmp_path / "vitscope" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "vitscope" / "data"
