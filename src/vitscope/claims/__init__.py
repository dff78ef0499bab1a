"""What the papers say, held against what was measured."""

from vitscope.claims.features import feature_verdicts
from vitscope.claims.verdict import Verdict

__all__ = ["Verdict", "feature_verdicts"]
