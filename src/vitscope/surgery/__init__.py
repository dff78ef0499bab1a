"""Operations on models: in place, recorded, saved and loaded with the model.

import vitscope as vs

model = vs.create_model("resnet50")
before = vs.surgery.Before(model)
vs.surgery.alternate(model, budget=6)
print(before.compare(model).table())
"""

from vitscope.models.sources.run_folder import redo_operations_with
from vitscope.models.zoo.local_attention import LocalAttention, local_attention
from vitscope.surgery.alternate import alternate
from vitscope.surgery.broadcast_context import broadcast_context
from vitscope.surgery.ensemble import deep_ensemble, ensemble
from vitscope.surgery.extend import extend
from vitscope.surgery.lesion import lesion
from vitscope.surgery.localize import localize
from vitscope.surgery.mc_dropout import mc_dropout, sampling
from vitscope.surgery.pool_tokens import pool_tokens
from vitscope.surgery.smooth import smooth
from vitscope.surgery.squeeze_excite import squeeze_excite
from vitscope.surgery.temporal import reset, smooth_stream, temporal
from vitscope.surgery.tools.compare import Before, Comparison
from vitscope.surgery.tools.record import OPERATIONS, CannotOperate, NoEffectWarning, record, replay, undo
from vitscope.surgery.uniform_heads import uniform_heads

__all__ = [
    "OPERATIONS",
    "Before",
    "CannotOperate",
    "Comparison",
    "LocalAttention",
    "NoEffectWarning",
    "alternate",
    "broadcast_context",
    "deep_ensemble",
    "ensemble",
    "extend",
    "lesion",
    "local_attention",
    "localize",
    "mc_dropout",
    "pool_tokens",
    "record",
    "replay",
    "reset",
    "sampling",
    "smooth",
    "smooth_stream",
    "squeeze_excite",
    "temporal",
    "undo",
    "uniform_heads",
]

redo_operations_with(replay)
