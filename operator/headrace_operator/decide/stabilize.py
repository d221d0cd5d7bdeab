"""How long a need has lasted: times in the status, so that a successor counts on.

| seen | overloaded since | so few are enough since |
| --- | --- | --- |
| load over a target | kept, or now | none |
| load that fewer replicas could carry | none | kept, or now; none of what is fewer still |
| load in between | none | none |
| no data | kept: no proof that it is over | none: no proof that it lasted |
| no data yet, a change is being judged; pods drain | | kept, and nothing added |
| pods on their way or being replaced | none: the answer is under way | none |
"""

from headrace_operator.api.status import Enough
from headrace_operator.api.status_resource import MAX_LEVELS
from headrace_operator.api.vocabulary import Reason
from headrace_operator.decide.load import Load
from headrace_operator.decide.replicas import fewest
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
    return (previous_s or now_s) if load.is_over else None


def enough(situation: Situation) -> tuple[Enough, ...]:
    """How few replicas would have been enough, and since when without a break."""
    supply, now_s = situation.supply, situation.now_s
    if supply.loading or supply.is_rolling_out:
        return ()
    known = situation.previous.enough
    if situation.load is None:
        is_judging = situation.blindness is not None and situation.blindness.reason is Reason.STABILIZING
        return known if is_judging else ()
    if not situation.sees_all_pods:
        return ()
    wanted = fewest(situation, situation.load)
    kept = tuple(level for level in known if wanted <= level.replicas < situation.replicas)
    if supply.draining or wanted >= situation.replicas or any(level.replicas == wanted for level in kept):
        return kept
    # Where there is no room, what is left out makes the fewer wait longer.
    return (*kept[: MAX_LEVELS - 1], Enough(wanted, now_s))
