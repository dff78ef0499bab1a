"""Claims put to the test, from their cards to their verdicts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.studies.task_sets import prepare_task_sets
from vitscope.core.errors import VitscopeError
from vitscope.results.claim_record import ClaimRecord
from vitscope.studies.cards import list_cards
from vitscope.studies.reproduce import register, registered_digest, reproduce
from vitscope.studies.scales import read_scale

SAMPLE = ("D6", "E3", "F1")


def files_of(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("smoke")
    reproduce(SAMPLE, "smoke", out=out, store=out / "store", engine="here", progress=False)
    return out


def test_every_comparison_of_a_card_has_a_number(folder: Path) -> None:
    for card in list_cards(SAMPLE):
        record = ClaimRecord.load(folder / card.claim)
        assert record is not None
        assert record.study is not None
        assert record.digest == registered_digest(card, read_scale("smoke"))
        rows = record.verdict_rows
        assert [row["statement"] for row in rows] == [one["statement"] for one in card.comparisons]
        assert all(row["seeds"] == 1 and row["value"] == row["value"] for row in rows)
        assert record.outcome == "no verdict"  # this scale decides nothing


def test_arms_that_are_alike_are_trained_once(folder: Path) -> None:
    """D6's ViT is F1's with weak augmentation: at this scale all arms are, that do not say strong."""
    assert len(list((folder / "store" / "train").iterdir())) == 1 + 1 + 3


def test_what_is_done_is_not_done_again(folder: Path) -> None:
    before = files_of(folder / "store")
    (record,) = reproduce(["F1"], "smoke", out=folder, store=folder / "store", engine="here", progress=False)
    assert record.claim == "F1"
    assert files_of(folder / "store") == before


def test_a_changed_card_is_refused_and_what_renews_it_is_written_down(folder: Path) -> None:
    (card,) = list_cards(["D6"])
    changed = replace(card, comparisons=({**card.comparisons[0], "rule": "below 2"},))
    scale = read_scale("smoke")
    with pytest.raises(VitscopeError, match=r"card D6 was changed since its results .*--renew"):
        register(changed, scale, folder)
    kept = ClaimRecord.load(folder / "D6")
    assert kept is not None
    first, other = (registered_digest(one, scale) for one in (card, changed))
    assert first != other
    assert kept.digest == first
    assert kept.revisions == ()
    register(changed, scale, folder, renew=True)
    renewed = ClaimRecord.load(folder / "D6")
    assert renewed is not None
    assert renewed.digest == other
    assert [one["digest"] for one in renewed.revisions] == [first]
    assert json.loads((folder / "D6" / "card.json").read_text())["revisions"][0]["given up"]
    register(card, scale, folder, renew=True)  # back again, which stays written there, too
    again = ClaimRecord.load(folder / "D6")
    assert again is not None
    assert [one["digest"] for one in again.revisions] == [first, other]


def test_a_card_without_results_may_be_changed(tmp_path: Path) -> None:
    (card,) = list_cards(["D6"])
    scale = read_scale("smoke")
    register(card, scale, tmp_path)
    register(replace(card, title="Another"), scale, tmp_path)
    record = ClaimRecord.load(tmp_path / "D6")
    assert record is not None
    assert record.title == "Another"
    assert record.revisions == ()


def test_a_claim_that_this_scale_cannot_decide_is_registered_all_the_same(tmp_path: Path) -> None:
    (record,) = reproduce(
        ["F5"], "smoke", out=tmp_path, store=tmp_path / "store", engine="here", progress=False
    )
    assert record.outcome == "not at this scale"
    assert not (tmp_path / "store").exists()


@pytest.mark.slow  # every card, seconds to a minute each
def test_all_cards_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_task_sets(tmp_path / "sets", monkeypatch)
    records = reproduce((), "smoke", out=tmp_path, store=tmp_path / "store", engine="here", progress=False)
    assert [record.claim for record in records] == [card.claim for card in list_cards()]
    for record in records:
        if record.possible:
            assert record.study is not None
            assert record.study.missing == ()
            assert all(row["seeds"] == 1 for row in record.verdict_rows), record.claim
