"""Files of tensors: whole, or as if they were not there."""

import torch

from vitscope.engine.finished_parts import read_tensors, write_tensors


def test_tensors_and_facts_come_back(tmp_path):
    tensors = {"a": torch.randn(3, 4, dtype=torch.float64), "b": torch.arange(5)}
    write_tensors(tmp_path / "x.safetensors", tensors, {"key": "k"})
    found, facts = read_tensors(tmp_path / "x.safetensors")
    assert facts["key"] == "k"
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": torch.ones(100)}, {"key": "k"})
    content = bytearray(path.read_bytes())
    content[-7] ^= 1  # one bit of one number
    path.write_bytes(content)
    assert read_tensors(path) == ({}, {})
    path.write_bytes(content[:50])
    assert read_tensors(path) == ({}, {})
    assert read_tensors(tmp_path / "absent.safetensors") == ({}, {})
