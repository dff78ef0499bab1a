"""The loss at points in the space of weights: what landscapes and lines between models have in common."""

import numpy as np


class LossPoints:
    """Of a result with `nll`, `l2` and other quantities at every point, each but l2 with `_low` and `_high`."""

    nll: np.ndarray
    l2: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """NLL + l2."""
        return np.asarray(self.nll + self.l2)

    @property
    def not_finite(self) -> int:
        """At how many points the NLL is infinite or not a number."""
        return int((~np.isfinite(self.nll)).sum())

    def of(self, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A quantity at every point, with its interval over images; that of l2, which has none, is NaN."""
        if quantity == "l2":
            return self.l2, np.full_like(self.l2, np.nan), np.full_like(self.l2, np.nan)
        base, shift = ("nll", self.l2) if quantity == "loss" else (quantity, np.zeros_like(self.l2))
        value, low, high = (getattr(self, f"{base}{end}") + shift for end in ("", "_low", "_high"))
        return value, low, high
