import numpy as np

from vitscope.results import UnitRow
from vitscope.results.unit_changes import score_weights, stages_of


def scores(similarity: np.ndarray, stages: list[int]) -> list[float]:
    return [float((w * similarity).sum()) for w in score_weights(np.array(stages))]


def test_blocks_alone_have_the_same_score_both_ways() -> None:
    stages = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    similarity = np.where(stages[:, None] == stages, 0.9, 0.4)
    np.testing.assert_allclose(scores(similarity, stages.tolist()), 0.5)


def test_decay_with_distance_is_structure_but_no_contrast() -> None:
    place = np.arange(9)
    similarity = 0.8 ** np.abs(place[:, None] - place)
    structure, contrast = scores(similarity, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert structure > 0.1
    assert abs(contrast) < 1e-12


def test_by_hand() -> None:
    similarity = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.4], [0.2, 0.4, 1.0]])
    structure, contrast = scores(similarity, [0, 0, 1])
    np.testing.assert_allclose(structure, 0.9 - (0.2 + 0.4) / 2)
    np.testing.assert_allclose(contrast, 0.9 - 0.4)  # the pairs of neighbours


def test_scores_that_do_not_exist() -> None:
    assert np.isnan(score_weights(np.array([0, 1, 2]))).all()  # no pair inside a stage
    assert np.isnan(score_weights(np.array([0, 0, 0]))).all()  # none between stages


def test_a_model_of_one_stage_is_cut_into_quarters() -> None:
    def units(*stages: int) -> list[UnitRow]:
        return [UnitRow(f"u{i}", "mlp", s, i / len(stages)) for i, s in enumerate(stages)]

    assert stages_of(units(*[0] * 8)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert stages_of(units(0, 0, 1, 3)).tolist() == [0, 0, 1, 3]
    assert stages_of(units(2)).tolist() == [0]
