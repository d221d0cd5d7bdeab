"""How long a need has lasted: two times in the status, so that a successor counts on.

| seen | overloaded since | slack since |
| --- | --- | --- |
| load over a target | kept, or now | none |
| load that one replica less could carry | none | kept, or now |
| load in between | none | none |
| no data | kept: no proof that it is over | none: no proof that it lasted |
| pods on their way or being replaced | none: the answer is under way | none |
"""

from headrace_operator.decide.load import Load
from headrace_operator.decide.replicas import why_needed
from headrace_operator.decide.situation import Situation
from headrace_operator.decide.supply import Supply


def overloaded_since_s(
    previous_s: float | None, *, supply: Supply, load: Load | None, now_s: float
) -> float | None:
    """Since when targets have been missed."""
    if supply.loading or supply.is_rolling_out:
        return None
    if load is None:
        return previous_s
    return min(previous_s or now_s, now_s) if load.is_over else None


def slack_since_s(situation: Situation) -> float | None:
    """Since when one replica less would have been enough."""
    supply, load = situation.supply, situation.load
    if load is None or supply.loading or supply.is_rolling_out or supply.draining:
        return None
    if not situation.sees_all_pods or why_needed(situation, load) is not None:
        return None
    return min(situation.previous.slack_since_s or situation.now_s, situation.now_s)
