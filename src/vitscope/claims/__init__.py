"""What the papers say, held against what was measured."""

from vitscope.claims.attention import attention_verdicts, broadcast_verdicts
from vitscope.claims.features import feature_verdicts
from vitscope.claims.outputs import (
    alternet_verdicts,
    augmentation_verdicts,
    noise_verdict,
    robustness_verdicts,
    transformer_verdicts,
)
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
