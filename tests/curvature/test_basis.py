import os

import numpy as np
import pytest
import torch

from vitscope.core.errors import VitscopeError
from vitscope.curvature.dots import Basis


@pytest.mark.parametrize("memory", [None, 0])  # 0: in a file
def test_orthogonalise_combine_and_rotate(
    memory: int | None, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    q = torch.linalg.qr(torch.randn(9, 4, dtype=torch.float64)).Q.T
    with Basis(6, 3 * q[0], memory) as basis:
        assert len(os.listdir(tmp_path)) == (1 if memory == 0 else 0)
        for i in range(1, 4):
            basis.append(q[i], i)
        torch.testing.assert_close(basis[0], q[0])
        vector = 2 * q[0] - q[2]
        along = basis.orthogonalise(vector, 3)
        np.testing.assert_allclose(along, [2, 0, -1], atol=1e-12)
        assert float(vector.norm()) < 1e-12
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 2)))[0]
        expected = torch.from_numpy(turn.T) @ q[:3]
        torch.testing.assert_close(basis.combine(turn[:, 0]), expected[0])
        basis.rotate(turn, 3)
        torch.testing.assert_close(torch.stack([basis[0], basis[1], basis[2]]), torch.cat([expected, q[3:]]))
    assert not os.listdir(tmp_path)


def test_a_start_of_length_zero_is_refused() -> None:
    with pytest.raises(VitscopeError, match="start vector has length 0"):
        Basis(3, torch.zeros(5))
