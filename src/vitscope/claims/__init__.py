"""What the papers say, held against what was measured."""

from vitscope.claims.attention import attention_verdicts, broadcast_verdicts
from vitscope.claims.features import feature_verdicts
from vitscope.claims.verdict import Verdict

__all__ = ["Verdict", "attention_verdicts", "broadcast_verdicts", "feature_verdicts"]
