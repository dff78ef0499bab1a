"""Does attention, applied again and again, remove every frequency but 0?

With A the attention matrix of one image and head and V its values, the amplitude of all frequencies but 0 (the
deviation from the mean over the points of the map, by Parseval's theorem) that is left after k applications is

    remaining(k) = || P A^k V ||_F / || P V ||_F,      P x = x - mean over points
    rate         = (remaining(8) / remaining(4))^(1/4)

A has rows that sum to 1, so A maps constants to themselves, and the rate tends to the second largest |eigenvalue| of A:
below 1 everything but the mean dies out. In windows the mean is that of each window, because attention inside
windows never mixes them; padded windows, and those that a cyclic shift puts together from opposite edges, are left
out. The value of a layer is the mean over heads; means are over images, intervals too.
"""

import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.anatomy.watch.places import Places
from vitscope.engine.heads import HeadMoments, attention_matrix, why_not
from vitscope.engine.single_exam import single_exam
from vitscope.findings.low_pass import APPLICATIONS, QUANTITIES, LowPassResult


def decay(weights: Tensor, values: Tensor, points: Tensor) -> Tensor:
    """(N, heads, quantities): what is left of the values' non-zero frequencies.

    `weights` are (N, windows, heads, tokens, tokens), rows sum to 1, `values` (N, windows, heads, tokens, channels);
    `points` says which of the tokens are points of the map.
    """
    if weights.device.type == "mps":  # which has no float64
        weights, values, points = weights.cpu(), values.cpu(), points.cpu()
    weights, x = weights.double(), values.double()
    share = points.to(weights) / points.sum()
    x, start = _centred(x, share)
    left = {}
    for k in range(1, max(APPLICATIONS) + 1):
        x, amplitude = _centred(weights @ x, share)
        left[k] = torch.where(start > 0, amplitude / start, 0.0)
    shown = [left[k] for k in APPLICATIONS]
    rate = torch.where(shown[-2] > 0, shown[-1] / shown[-2], 0.0) ** (
        1 / (APPLICATIONS[-1] - APPLICATIONS[-2])
    )
    return torch.stack([rate, *shown], 2)


def _centred(x: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """`x` less its mean over points, and the root mean square (N, heads) of what is left.

    A constant stays one, and were it kept, rows that sum to 1 but for rounding would make of it more than nearly
    uniform attention leaves of the rest.
    """
    x = x - (share @ x)[..., None, :]
    squares = torch.linalg.vector_norm(x, dim=-1).square_() @ share
    return x, squares.mean(1).sqrt()


def repeatable(unit: Unit, places: Places) -> Tensor:
    """The windows whose attention can be applied again and stays inside one connected piece of the map."""
    pattern = unit.attention.pattern if unit.attention is not None else "other"
    if places.queries.shape != places.keys.shape or not torch.equal(places.queries, places.keys):
        return torch.zeros(0, dtype=torch.long)
    if pattern in ("global", "local") and bool(((places.queries < 0).sum(1) == unit.prefix_tokens).all()):
        return torch.arange(len(places.queries))
    width, spaced = places.query_grid[1], pattern == "grid"
    whole = [i for i, row in enumerate(places.queries) if _box(row, width, spaced)]
    return torch.tensor(whole, dtype=torch.long)


def _box(row: Tensor, width: int, spaced: bool) -> bool:
    """Whether points fill a rectangle, with equal gaps if `spaced`."""
    if bool((row < 0).any()):
        return False
    gaps = [(row // width).unique().diff(), (row % width).unique().diff()]
    size = (len(gaps[0]) + 1) * (len(gaps[1]) + 1)
    return size == len(row) and all(bool((g == (g[:1] if spaced else 1)).all()) for g in gaps)


class LowPassAccumulator(HeadMoments):
    """Collects `decay` of every MSA over images."""

    result = LowPassResult
    quantities = QUANTITIES

    @staticmethod
    def why_not(unit: Unit) -> str | None:
        """Why a unit cannot be measured, None if it can: attention among one set of tokens can be applied again."""
        reason = why_not(unit)
        if reason is not None or unit.attention is None:
            return reason
        for site in unit.attention.sites:
            assert site.places is not None
            if site.places.queries.shape != site.places.keys.shape:
                return "its keys are not its queries, so it cannot be applied again"
            if not len(repeatable(unit, site.places)):
                return "no window of it is a whole piece of the map"
            if int((site.places.queries[0] >= 0).sum()) < 2:
                return "a single point has no frequency but 0"
        return None

    @staticmethod
    def measure_heads(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """`decay` of one attention."""
        assert seen.places is not None
        windows = repeatable(unit, seen.places)
        both = (attention_matrix(seen), seen.values.float())
        weights, values = (tensor.unflatten(0, (n_images, -1)) for tensor in both)
        if len(windows) < weights.shape[1]:
            weights, values = weights[:, windows], values[:, windows]
        points = seen.places.queries[windows[0]] >= 0
        return decay(weights, values, points.to(weights.device))


low_pass = single_exam(
    LowPassAccumulator, "what is left after `model`'s attention is applied again and again"
)
