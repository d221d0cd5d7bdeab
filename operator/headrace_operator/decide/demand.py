"""How many replicas the load needs while targets are missed: an estimate that errs to the low side.

Two are made, and the lower one counts: each overstates where the other does not. By rates, what arrives
against what ends (a service that just began has ended little). By the crowd, what runs and waits against what
a replica runs (a queue that has piled up counts as if it came for ever).
"""

from headrace_operator.decide.load import Load
from headrace_operator.decide.situation import Situation


def needed_replicas(situation: Situation, load: Load) -> float | None:
    """None where neither can be told. More than there are, or nothing says that more than one is lacking."""
    serving = len(situation.supply.ready)
    known = [ratio for ratio in (_by_rates(load), _by_crowd(load, serving)) if ratio is not None]
    return serving * min(known) if known and serving else None


def _by_rates(load: Load) -> float | None:
    """What arrives, in what the replicas get done."""
    if load.arrivals_per_s is None or not load.finished_per_s:
        return None
    return load.arrivals_per_s / load.finished_per_s


def _by_crowd(load: Load, serving: int) -> float | None:
    """What there is to do at once, in what the replicas do at once."""
    if load.running_per_pod is None or load.waiting is None or not serving:
        return None
    running = serving * max(1.0, load.running_per_pod)
    return (running + load.waiting) / running
