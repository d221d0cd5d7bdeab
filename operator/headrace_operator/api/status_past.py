"""What the status remembers is past: another leader's clock may have been ahead, this one was set back, or a
time is forged. A time to come would be waited for, however far it is.
"""

from dataclasses import replace

from headrace_operator.api.rollout_memory import RolloutMemory
from headrace_operator.api.status import Previous


def until(previous: Previous, now_s: float) -> Previous:
    """The same with no time after `now_s` in it."""

    def past(at_s: float | None) -> float | None:
        return None if at_s is None else min(at_s, now_s)

    recommended = previous.recommended
    return replace(
        previous,
        limits_since_s=past(previous.limits_since_s),
        slo_since_s=past(previous.slo_since_s),
        overloaded_since_s=past(previous.overloaded_since_s),
        enough=tuple(replace(level, since_s=min(level.since_s, now_s)) for level in previous.enough),
        scaled_down_at_s=past(previous.scaled_down_at_s),
        decided_at_s=past(previous.decided_at_s),
        recommended=recommended and replace(recommended, since_s=min(recommended.since_s, now_s)),
        history=tuple(replace(change, at_s=min(change.at_s, now_s)) for change in previous.history),
        conditions=tuple(
            replace(condition, since_s=min(condition.since_s, now_s)) for condition in previous.conditions
        ),
        rollout=previous.rollout and _rollout_until(previous.rollout, now_s),
    )


def _rollout_until(memory: RolloutMemory, now_s: float) -> RolloutMemory:
    failed, lacks_gpu_since_s = memory.failed, memory.lacks_gpu_since_s
    return replace(
        memory,
        since_s=min(memory.since_s, now_s),
        failed=failed and replace(failed, at_s=min(failed.at_s, now_s)),
        lacks_gpu_since_s=None if lacks_gpu_since_s is None else min(lacks_gpu_since_s, now_s),
    )
