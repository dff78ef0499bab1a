import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.results.codec import decode, encode
from vitscope.results.condition_rows import (
    QUANTITIES,
    ConditionTable,
    Headline,
    condition_rows,
    headline_rows,
)
from vitscope.results.numbers import label


def test_a_headline_is_the_value_and_the_middle_of_its_replicates() -> None:
    drawn = np.concatenate([[0.5], np.linspace(0, 1, 1000)])
    headline = Headline.of("drop", "noise", drawn)
    assert headline.value == 0.5
    np.testing.assert_allclose([headline.low, headline.high], [0.025, 0.975], atol=1e-12)
    assert headline.drawn.shape == (1001,)
    assert list(encode(headline)) == ["quantity", "condition", "value", "low", "high", "drawn"]
    again = decode(Headline, encode(headline))
    assert again.label == "drop, noise"
    np.testing.assert_array_equal(again.drawn, drawn)


def test_rows_have_labels_of_their_own() -> None:
    value = np.arange(2.0 * len(QUANTITIES)).reshape(2, -1)
    drop = np.array([0.0, 0.3])
    scores = ConditionTable(50, value, value - 1, value + 1, Estimate(drop, drop - 0.1, drop + 0.1))
    table = condition_rows(["clean", "masked"], scores, ("accuracy", "nll"), share=[0.0, 0.25])
    labels = [label("occlusion", row) for row in table.itertuples()]
    assert labels == ["accuracy, clean", "accuracy, masked", "nll, clean", "nll, masked", "drop, masked"]
    masked = table[(table["quantity"] == "nll") & (table["share"] == 0.25)].iloc[0]
    assert (masked["value"], masked["n"]) == (value[1, QUANTITIES.index("nll")], 50)
    assert len(headline_rows((), 0)) == 0
