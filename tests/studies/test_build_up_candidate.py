import torch

import vitscope as vs
from tests.surgery.checks import assert_equal, outputs
from tests.surgery.measures import margins, tiny
from vitscope.models import save_model
from vitscope.studies.build_up_candidate import candidate_folder, run_candidate
from vitscope.surgery import record


def run(search, msa, seed=0):
    out = candidate_folder(search, msa)
    out.mkdir(parents=True)
    surgery = {"heads": [1, 1, 1, 1], "window": 2}
    return out, run_candidate(out, msa, surgery, "tests.surgery.measures:margins", {}, seed)


def test_a_candidate_is_the_base_with_msa_blocks_trained_and_saved(tmp_path):
    base = tiny()
    save_model(base, tmp_path / "base", [])
    before = torch.get_rng_state()
    out, result = run(tmp_path, (0, 0, 1, 1))
    assert torch.equal(torch.get_rng_state(), before)
    saved = vs.create_model(out)
    assert record(saved)[0]["options"]["msa"] == [0, 0, 1, 1]
    assert result["parameters"] == sum(p.numel() for p in saved.parameters())
    images = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert result["scores"] == outputs(saved, images)[0][:, 0].tolist()


def test_seeds_decide(tmp_path):
    for name in ("a", "b", "c"):
        save_model(tiny(), tmp_path / name / "base", [])
    torch.manual_seed(1)
    first = run(tmp_path / "a", (0, 0, 0, 1))[1]
    torch.manual_seed(2)
    assert run(tmp_path / "b", (0, 0, 0, 1))[1] == first
    assert run(tmp_path / "c", (0, 0, 0, 1), seed=1)[1] != first


def test_without_msa_blocks_it_is_the_base(tmp_path):
    save_model(tiny(), tmp_path / "base", [])
    out, result = run(tmp_path, (0, 0, 0, 0))
    base = tiny()
    assert result["scores"] == margins(base, out, 0)
    assert record(vs.create_model(out)) == []
    images = torch.randn(2, 3, 32, 32)
    assert_equal(outputs(vs.create_model(out), images), outputs(base, images))
