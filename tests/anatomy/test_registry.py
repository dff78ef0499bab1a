"""Timm's whole registry: a seeded sample here, all of it in the slow target."""

import random
from pathlib import Path

import pandas as pd
import pytest

from tests.cases import one_in
from tests.registry import meta_row, meta_table, real_row, real_table, smallest_of_each_module, timms_own

PARAMETERS = (
    pd.read_csv(Path(__file__).parents[2] / "docs" / "coverage_meta.csv").set_index("name").parameters
)


def affordable(name: str) -> bool:
    """Of up to a hundred million parameters: the giants, more of the same blocks, are left to the slow target."""
    # gemma4's encoders read values, which there are none of without weights (docs/coverage.md)
    return PARAMETERS.get(name, 0) <= 100e6 and not name.startswith("gemma4")


SAMPLE = sorted(random.Random(0).sample([name for name in timms_own() if affordable(name)], 20))

# small architectures of modules that differ most in how they are written, the deep ones of fewer of their blocks
REAL_SAMPLE = {
    "cait_xxs24_224": {"depth": 6},
    "coat_tiny": {"parallel_depth": 2},
    "crossvit_tiny_240": {},
    "deit_tiny_distilled_patch16_224": {},
    "densenet121": {"block_config": (3, 4, 6, 4)},
    "dla34": {},
    "edgenext_xx_small": {},
    "efficientformerv2_s0": {},
    "fastvit_t8": {},
    "ghostnet_050": {},
    "hrnet_w18_small": {},
    "mobilevit_xxs": {},
    "repvit_m0_9": {},
    "tnt_s_legacy_patch16_224": {"depth": 3},
}


@pytest.mark.parametrize("name", one_in(3, SAMPLE))
def test_meta(name):
    assert meta_row(name).problem == ""


@pytest.mark.parametrize("name", one_in(3, REAL_SAMPLE))
def test_real(name):
    assert real_row(name, **REAL_SAMPLE[name]).problem == ""


@pytest.mark.slow
def test_whole_registry():
    meta = meta_table(timms_own())
    assert (meta.problem == "").mean() >= 0.99, meta[meta.problem != ""].to_string()
    real = real_table(smallest_of_each_module(meta))
    assert (real.problem == "").sum() >= len(real) - 2, real[real.problem != ""].to_string()
