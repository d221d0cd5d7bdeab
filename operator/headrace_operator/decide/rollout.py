"""How strategy Auto replaces the pods of an older spec: one more first where it finds a GPU, else one less.

A surge that no node has a GPU for would wait for ever beside the pods that hold them all. So once it has
waited a while, and no pod of the service is leaving that holds one, an old pod is drained and replaced at a
time until the rollout is over. The live Deployment is the memory of that.
"""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.rollout_memory import RolloutMemory
from headrace_operator.api.spec import RolloutStrategy, ServiceSpec
from headrace_operator.decide.supply import Supply

PATIENCE_SHARE, MIN_PATIENCE_S, MAX_PATIENCE_S = 0.1, 15.0, 60.0
"""Of the start-up timeout, that a surge waits for a GPU: an end of other pods or a new node may bring it. The
scheduler itself takes up to 10 s to see one that came free."""


def surges(
    spec: ServiceSpec,
    supply: Supply,
    deployment: Mapping[str, Any] | None,
    memory: RolloutMemory,
    *,
    now_s: float,
) -> bool:
    """Whether pods are replaced as `spec.rollout` says; else one goes before another comes."""
    if spec.rollout.strategy is not RolloutStrategy.AUTO or not supply.is_rolling_out:
        return True
    if _replaces(deployment):
        return False
    patience_s = min(MAX_PATIENCE_S, max(MIN_PATIENCE_S, PATIENCE_SHARE * spec.engine.startup_timeout_s))
    since_s = memory.lacks_gpu_since_s
    return since_s is None or now_s - since_s < patience_s


def _replaces(deployment: Mapping[str, Any] | None) -> bool:
    strategy = ((deployment or {}).get("spec") or {}).get("strategy") or {}
    return (strategy.get("rollingUpdate") or {}).get("maxSurge") == 0
