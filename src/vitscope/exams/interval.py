"""95 % intervals of a mean, from sums alone."""

import numpy as np

NORMAL = 1.959963984540054
_FEW = (12.706204736, 4.302652730, 3.182446305, 2.776445105, 2.570581836)  # of 1 to 5 degrees of freedom


def student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t (Cornish-Fisher beyond the table, within 1e-3)."""
    if degrees <= len(_FEW):
        return _FEW[degrees - 1]
    z, v = NORMAL, float(degrees)
    return float(
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def mean_interval(
    total: np.ndarray, squares: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and its 95 % interval from the sum and the sum of squares over `n` independent images.

    The interval is NaN for fewer than two images.
    """
    mean = total / n
    if n < 2:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    deviation = np.sqrt(np.maximum(squares - n * mean**2, 0.0) / (n - 1))
    half = student(n - 1) * deviation / np.sqrt(n)
    return mean, mean - half, mean + half
