import math

import numpy as np
import pytest

from tests.studies.small_study import results, training
from vitscope.core.errors import BadArgument
from vitscope.results import loss_numbers
from vitscope.results.over_seeds import Measured
from vitscope.results.paired import differences
from vitscope.studies import quantities
from vitscope.studies.quantities import NotMeasured, Quantity, measure, measure_difference, statistic

PLAIN, BROADCAST = ("plain", 0), ("broadcast", 0)


def test_a_name_is_taken_apart() -> None:
    read = Quantity.read("noise.accuracy[condition=blur 3, severity=2]")
    assert read == Quantity("noise", "accuracy", (("condition", "blur 3"), ("severity", "2")))
    assert str(Quantity.read("fourier.change[kind=msa]")) == "fourier.change[kind=msa]"


@pytest.mark.parametrize("text", ["accuracy", "a.b[c]", "a.b[=c]", "a.b]", "", ".b"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match=r"expected LABEL\.QUANTITY"):
        Quantity.read(text)


def test_numbers_of_whole_models_come_with_their_replicates() -> None:
    result = results()[PLAIN]["prediction"]
    found = measure("prediction.accuracy", results()[PLAIN])
    assert found.value == result.accuracy  # type: ignore[attr-defined]
    assert found.n == 60
    assert found.drawn is not None
    np.testing.assert_array_equal(found.drawn, result.replicates()["accuracy"])  # type: ignore[attr-defined]


def test_a_column_chooses_among_rows() -> None:
    table = results()[PLAIN]["fourier"].table()
    row = table[(table["quantity"] == "change") & (table["kind"] == "mlp") & table["unit"].isna()].iloc[0]
    found = measure("fourier.change[kind=mlp]", results()[PLAIN])
    assert (found.value, found.low, found.high) == (row["value"], row["low"], row["high"])
    unit = table[(table["quantity"] == "change") & (table["unit"] == "blocks.1.mlp")].iloc[0]
    assert measure("fourier.change[unit=blocks.1.mlp]", results()[PLAIN]).value == unit["value"]


def test_units_are_averaged_and_heads_left_out() -> None:
    result = results()[PLAIN]["attention"]
    table = result.table()
    layers = table[(table["quantity"] == "entropy") & table["head"].isna()]
    found = measure("attention.entropy", results()[PLAIN])
    assert found.value == pytest.approx(layers["value"].mean())
    assert found.low == pytest.approx(layers["low"].mean())
    heads = table[(table["quantity"] == "entropy") & (table["head"] == 1)]
    assert measure("attention.entropy[head=1]", results()[PLAIN]).value == pytest.approx(
        heads["value"].mean()
    )


def test_trainings_tell_what_they_recorded() -> None:
    record = training()[PLAIN]
    assert measure("training.train_loss", {}, record).value == record["train_loss"]
    accuracy = measure("training.accuracy", {}, record)
    assert (accuracy.low, accuracy.high) == (record["low"], record["high"])
    with pytest.raises(NotMeasured, match="no training"):
        measure("training.train_loss", {}, None)


@pytest.mark.parametrize(
    ("quantity", "said"),
    [
        ("prediction.accuray", "did you mean accuracy"),
        ("fourier.chnge[kind=msa]", "did you mean change"),
        ("fourier.change[kind=conv]", "kind is not conv but one of: .*msa"),
        ("fourier.change[sort=msa]", "no column 'sort'"),
        ("fourier.change", "stands for 2 numbers; say which, as in fourier.change.kind=msa"),
        ("training.train_los", "did you mean train_loss"),
    ],
)
def test_an_unknown_number_is_told_from_what_there_is(quantity: str, said: str) -> None:
    with pytest.raises(BadArgument, match=said):
        measure(quantity, results()[PLAIN], training()[PLAIN])


def test_an_exam_that_is_not_done_is_no_mistake() -> None:
    with pytest.raises(NotMeasured, match="hessian is not done"):
        measure("hessian.nep", {"prediction": results()[PLAIN]["prediction"]})


def test_differences_are_those_of_pairs_of_results() -> None:
    """Against the differences that pages of two models show."""
    pair = results()[BROADCAST], results()[PLAIN]
    known = differences(pair[0]["prediction"], pair[1]["prediction"]).set_index("quantity")
    for name in ("accuracy", "nll", "ece"):
        found = measure_difference(f"prediction.{name}", (pair[0], None), (pair[1], None))
        row = known.loc[name]
        assert (found.value, found.low, found.high) == pytest.approx((row["value"], row["low"], row["high"]))


def test_spectra_are_paired_by_batch() -> None:
    a, b = results()[BROADCAST]["hessian"], results()[PLAIN]["hessian"]
    found = measure_difference("hessian.ape", (results()[BROADCAST], None), (results()[PLAIN], None))
    known = loss_numbers.difference(a.eigenvalues, b.eigenvalues, "ape", 0)  # type: ignore[attr-defined]
    assert (found.value, found.low, found.high) == known
    alone = [measure("hessian.ape", results()[key]) for key in (BROADCAST, PLAIN)]
    assert found.half < math.hypot(*(one.half for one in alone))


def test_other_images_are_not_paired() -> None:
    """Results of another seed of the bootstrap drew other images: errors add up as those of strangers do."""
    from dataclasses import replace

    other = {"prediction": replace(results()[PLAIN]["prediction"], seed=1)}
    found = measure_difference("prediction.nll", (results()[BROADCAST], None), (other, None))
    halves = [measure("prediction.nll", one).half for one in (results()[BROADCAST], other)]
    assert found.drawn is None
    assert found.half == pytest.approx(math.hypot(*halves))


def test_a_statistic_is_a_quantity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantities, "STATISTICS", {})

    @statistic("attention.first_entropy")
    def first(found: quantities.Results) -> tuple[float, float, float] | None:
        rows = found["attention"].summary()
        row = rows[rows["quantity"] == "entropy"].iloc[0]
        return row["value"], row["low"], row["high"]

    @statistic("prediction.nothing")
    def nothing(found: quantities.Results) -> Measured | None:
        return None

    own = {"late": results()[PLAIN]["attention"], "prediction": results()[PLAIN]["prediction"]}
    assert measure("late.first_entropy", own).value == first({"attention": own["late"]})[0]  # type: ignore[index]
    with pytest.raises(NotMeasured, match=r"prediction.nothing is not defined"):
        measure("prediction.nothing", own)
    with pytest.raises(BadArgument, match="did you mean first_entropy"):
        measure("late.first_entrpy", own)
