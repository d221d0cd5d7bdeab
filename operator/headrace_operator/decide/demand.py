"""How many replicas the load needs while targets are missed: an estimate that errs to the low side.

Two are made, and the lower one counts: each overstates where the other does not. By rates, what arrives
against what ends (a service that just began has ended little). By the crowd, what runs and waits against what
a replica runs (a queue that has piled up counts as if it came for ever).

A request waits in one pod and stays there. Where replicas have room, what waits is of a time when there were
fewer: more of them would not shorten it. Where none has, it is to be worked off within the SLO's window.
"""

from headrace_operator.decide.load import BOUND_SHARE, Load
from headrace_operator.decide.situation import Situation

DRAINING_SHARE = 0.9
"""Of what ends: where less arrives, the queue gets shorter by itself."""
FEWEST_FINISHED = 20
"""Fewer requests that ended say nothing of a difference so small."""


def needed_replicas(situation: Situation, load: Load) -> float | None:
    """None where neither can be told."""
    serving = len(situation.supply.ready)
    known = [ratio for ratio in (_by_rates(load), _by_crowd(load, serving)) if ratio is not None]
    return serving * min(known) if known and serving else None


def is_draining(load: Load) -> bool:
    """Whether requests wait still and soon will not, however many replicas there are."""
    ratio = _by_rates(load)
    if ratio is None or not load.waiting or (load.finished or 0) < FEWEST_FINISHED:
        return False
    return ratio < DRAINING_SHARE


def _by_rates(load: Load) -> float | None:
    """What there is to do in a second, in what the replicas get done in one."""
    if load.arrivals_per_s is None or not load.finished_per_s:
        return None
    running, most = load.running_per_pod, load.limits.max_num_seqs
    has_room = running is None or running < BOUND_SHARE * most
    backlog = 0.0 if has_room else (load.waiting or 0.0)
    return (load.arrivals_per_s + backlog / load.slo.window_s) / load.finished_per_s


def _by_crowd(load: Load, serving: int) -> float | None:
    """What there is to do at once, in what the replicas do at once."""
    if load.running_per_pod is None or load.waiting is None or not serving:
        return None
    running = serving * max(1.0, load.running_per_pod)
    return (running + load.waiting) / running
