"""What the papers say, held against what was measured."""

from vitscope.claims.attention import attention_verdicts, broadcast_verdicts
from vitscope.claims.calibration import augmentation_verdicts
from vitscope.claims.curvature import alternet_verdicts, transformer_verdicts
from vitscope.claims.features import feature_verdicts
from vitscope.claims.robustness import noise_verdict, robustness_verdicts
from vitscope.claims.verdict import Rule, Verdict, verdict_table

__all__ = [
    "Rule",
    "Verdict",
    "alternet_verdicts",
    "attention_verdicts",
    "augmentation_verdicts",
    "broadcast_verdicts",
    "feature_verdicts",
    "noise_verdict",
    "robustness_verdicts",
    "transformer_verdicts",
    "verdict_table",
]
