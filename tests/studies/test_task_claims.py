"""Claims about pixels, objects, questions and streams, from their cards to numbers that a few plain lines give, too."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vitscope as vs
from tests.studies.task_sets import FRAMES, STREAMS, prepare_task_sets
from vitscope.core.errors import BadArgument
from vitscope.findings.temporal import QUANTITIES, TemporalResult
from vitscope.results.claim_record import ClaimRecord
from vitscope.studies import task_statistics  # noqa: F401 declares them
from vitscope.studies.cards import card_study, list_cards
from vitscope.studies.dry_run import rehearse_claims
from vitscope.studies.graph import plan_study
from vitscope.studies.images import Part
from vitscope.studies.quantities import measure
from vitscope.studies.rehearsal import Pace
from vitscope.studies.reproduce import reproduce
from vitscope.studies.scales import read_scale
from vitscope.studies.stand_ins import stand_in
from vitscope.studies.store import Store
from vitscope.tasks import find_task

CLAIMS = ("G1", "G2", "G3", "G4")
Found = dict[str, tuple[dict[str, Any], dict[str, Any], Path]]  # by arm: results, training, run folder


class Smoke:
    """All four at scale smoke, done once."""

    def __init__(self, out: Path) -> None:
        self.out, self.store = out, Store(out / "store")
        reproduce(CLAIMS, "smoke", out=out, store=out / "store", engine="here", progress=False)

    def found(self, claim: str) -> Found:
        plan = plan_study(card_study(list_cards([claim])[0], read_scale("smoke")), self.store)
        results, trained = plan.results(), plan.training()
        return {
            arm: (results[arm, 0], trained[arm, 0], self.store.job_folder("train", key))
            for (arm, _), key in plan.trainings.items()
        }


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        prepare_task_sets(tmp_path_factory.mktemp("sets"), patch)
        yield Smoke(tmp_path_factory.mktemp("smoke"))


def test_every_comparison_has_a_number(smoke: Smoke) -> None:
    for card in list_cards(CLAIMS):
        record = ClaimRecord.load(smoke.out / card.claim)
        assert record is not None
        assert record.study is not None
        assert record.study.missing == ()
        rows = record.verdict_rows
        assert [row["statement"] for row in rows] == [one["statement"] for one in card.comparisons]
        assert all(row["value"] == row["value"] for row in rows), card.claim
        assert record.outcome == "no verdict"


def test_what_noise_and_blur_take_of_miou(smoke: Smoke) -> None:
    results, _, _ = smoke.found("G1")["cb"]
    clean = results["segmentation"].miou
    for exam in ("noise", "blur"):
        table = results[exam].table()
        rows = table[table["quantity"] == "miou"].set_index("condition")["value"]
        assert rows["clean"] == pytest.approx(clean, abs=1e-6)
        others = rows.drop("clean")
        assert len(others) == {"noise": 3, "blur": 2}[exam]
        found = measure(f"{exam}.miou_lost", results)
        assert found.value == pytest.approx(clean - others.mean(), abs=1e-6)
        assert found.low <= found.value <= found.high
    assert measure("segmentation.miou", results).drawn is not None


def test_average_precision_and_its_interval_are_those_of_the_training(smoke: Smoke) -> None:
    for results, training, folder in smoke.found("G2").values():
        last = pd.read_csv(folder / "metrics.csv").iloc[-1]
        for name in ("box_ap", "mask_ap"):
            found = measure(f"training.{name}", results, training)
            told = [last[column] for column in (name, f"{name}_low", f"{name}_high")]
            assert [found.value, found.low, found.high] == pytest.approx(told, nan_ok=True)
    operated = vs.create_model(smoke.found("G2")["cb"][2])
    (done,) = operated.vitscope_surgery
    fed = {name.removeprefix("backbone.") for name in operated.feeding}
    assert done["options"]["layers"] == ["backbone.blocks.4.mlp", "backbone.blocks.6.mlp"]
    assert fed.isdisjoint({"blocks.4", "blocks.6"})


def test_context_is_broadcast_among_the_tokens_of_one_kind(smoke: Smoke) -> None:
    tokens = {}
    for arm, (_, training, folder) in smoke.found("G3").items():
        surgery = json.loads((folder / "config.json").read_text())["surgery"]
        tokens[arm] = [one["options"]["tokens"] for one in surgery]
        assert 0 <= training["low"] <= training["accuracy"] <= training["high"] <= 1
    assert tokens == {"vilt": [], "image": ["image"], "text": ["text"], "both": ["all"]}


@torch.no_grad()
def test_a_trained_u_net_on_a_stream_equals_a_loop_over_its_frames(smoke: Smoke) -> None:
    results, _, folder = smoke.found("G4")["smooth"]
    result = results["temporal"]
    assert isinstance(result, TemporalResult)
    assert result.way == ("one pass",) * 2 + ("mc dropout",) * 2 + ("one draw",) * 2
    model, data = vs.create_model(folder).eval(), vs.load_data("coral-stream")
    seen = [range(k * FRAMES, k * FRAMES + result.n // STREAMS) for k in range(STREAMS)]
    wrong, same, losses = [], [], []
    for sequence in seen:
        before: dict[bool, Any] = {}
        pictures = [np.asarray(data.picture(i), np.float64) for i in sequence]
        prepared = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) / 255
        mean, std = (
            torch.tensor(v).view(1, 3, 1, 1)
            for v in (model.pretrained_cfg["mean"], model.pretrained_cfg["std"])
        )
        alone = model(((prepared - mean) / std).float()).double().softmax(1).numpy()
        for t, place in enumerate(sequence):
            weights = np.exp(-0.8 * np.arange(min(t, 5) + 1))
            smoothed = sum(w * alone[t - a] for a, w in enumerate(weights)) / weights.sum()
            truth = np.asarray(data.target(place))
            for temporal, p in ((False, alone[t]), (True, smoothed)):
                classes = p.argmax(0)
                wrong.append((temporal, (classes != truth).mean()))
                losses.append((temporal, -np.log(np.take_along_axis(p, truth[None].astype(int), 0)).mean()))
                if temporal in before:
                    same.append((temporal, (classes == before[temporal]).mean()))
                before[temporal] = classes
    table = result.combinations()
    for row, temporal in enumerate((False, True)):
        expected = {
            "accuracy": 1 - np.mean([v for kind, v in wrong if kind == temporal]),
            "nll": np.mean([v for kind, v in losses if kind == temporal]),
            "consistency": np.mean([v for kind, v in same if kind == temporal]),
        }
        for name, value in expected.items():
            assert result.value[row, QUANTITIES.index(name)] == pytest.approx(value, abs=1e-5)
            assert table.loc[row, name] == result.value[row, QUANTITIES.index(name)]
            assert name in result.names or f"{name}, {result.names[row]}" in result.replicates()
    drawn = result.replicates()
    found = measure("temporal.nll_of_draws_minus_passes", results)
    assert found.value == drawn["nll, one draw + temporal"][0] - drawn["nll, mc dropout"][0]
    assert found.n == result.blocks


def test_stand_ins_of_tasks_can_be_learned_from() -> None:
    scale = read_scale("paper")
    for name, number in (("ade20k:ade20k", 20210), ("coco:coco", 118287), ("vqa:vqa", 443757)):
        data = stand_in(Part(name, "train"), scale.data[name])
        task = find_task(None, data)
        assert (len(data), len(data.classes), task.name) == (number, scale.data[name].classes, data.task)
    mask = stand_in(Part("ade20k:ade20k", "test"), scale.data["ade20k:ade20k"])[3][1]
    assert mask.shape == (480, 640)
    assert 0 <= mask.min() < mask.max() < 150
    objects = stand_in(Part("coco:coco", "test"), scale.data["coco:coco"]).target(0)
    for box, inside in zip(objects.boxes, objects.masks, strict=True):
        rows, columns = np.nonzero(inside)
        assert box.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


@pytest.mark.slow  # ViLT-B, ViT-S at 512 pixels, ViT-Ti at 800
def test_the_papers_models_of_tasks_take_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    costs = rehearse_claims(CLAIMS, "paper", 1, pace=Pace(steps=1, images=2, batch=2))
    assert [(cost.claim, cost.trainings) for cost in costs] == [("G1", 3), ("G2", 2), ("G3", 4), ("G4", 2)]
    assert all(cost.seconds > 0 and "cannot be done" not in cost.note for cost in costs)
    assert costs[0].note.startswith("ade20k:ade20k is not there: unpack ADEChallengeData2016")
    assert "hf:dandelin/vilt-b32-mlm is not there" in costs[2].note
    assert "camvid-frames:camvid is not there" in costs[3].note


def test_a_stand_in_for_a_model_names_what_there_is() -> None:
    from vitscope.studies.scales import StandInModel

    with pytest.raises(BadArgument, match="modle"):
        StandInModel(modle="vilt_mini")  # type: ignore[call-arg]
