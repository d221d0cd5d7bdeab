"""Chapter: more and more users, until the operator has to act: it moves limits, adds a replica, says why."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_bench.duration import written
from headrace_bench.record import Record
from headrace_bench.summary import distribution
from headrace_bench.workload import Lengths
from headrace_local.story.service import Decision, ServiceView
from headrace_local.story.stage import POLL_INTERVAL_S, Stage
from headrace_local.story.timeline import Timeline
from headrace_local.story.traffic import Crowd

GROUP = 4
MOST_USERS = 96
JOIN_INTERVAL_S = 2.5
PATIENCE_S = 15.0
"""How long the users stay as many after the first change, before more come to force the next."""
LENGTHS = Lengths(input_tokens=64, output_tokens=40, spread_ratio=0.5)
TIMEOUT_S = 180.0
RELIEF_S = 12.0
"""How long the load goes on once the second replica serves."""
LIMIT_ACTIONS = frozenset({"RaiseSeqLimit", "LowerSeqLimit", "RaiseTokenBudget", "LowerTokenBudget"})


@dataclass(frozen=True, slots=True)
class Burst:
    """What the operator did under load, with its reasons, and every request that was sent."""

    records: Sequence[Record]
    users: int
    limit_changes: tuple[Decision, ...]
    scale_ups: tuple[Decision, ...]
    ready_replicas: int | None


def burst(stage: Stage, base_url: str, before: ServiceView) -> Burst:
    """Loads the service until a limit has moved and two replicas serve, and a little longer."""
    stage.narrator.chapter("A burst: more and more users, each asking again, until the operator has to act")
    crowd = Crowd(base_url, LENGTHS)
    try:
        timeline = Timeline(stage, crowd, before)
        relieved_at_s = _until_relieved(stage, timeline, crowd)
        until_s = stage.clock() + RELIEF_S
        while stage.clock() < until_s:
            timeline.look()
            stage.pause(POLL_INTERVAL_S)
    finally:
        records = crowd.leave()
    _tell_relief(stage, records, relieved_at_s)
    return Burst(
        records=records,
        users=crowd.users,
        limit_changes=tuple(change for change in timeline.applied if change.action in LIMIT_ACTIONS),
        scale_ups=tuple(change for change in timeline.applied if change.action == "ScaleUp"),
        ready_replicas=timeline.view.ready_replicas,
    )


def _until_relieved(stage: Stage, timeline: Timeline, crowd: Crowd) -> float:
    """Users join until both has happened; the records' own time at that moment."""
    ramp = _Ramp(crowd, stage.clock())

    def relieved() -> float | None:
        view = timeline.look()
        actions = {change.action for change in timeline.applied}
        if actions & LIMIT_ACTIONS and "ScaleUp" in actions:
            return crowd.now_s if (view.ready_replicas or 0) >= 2 else None
        ramp.step(view, is_changed=bool(actions), now_s=stage.clock())
        return None

    return stage.until(
        "the operator to move a limit and to have two replicas ready",
        relieved,
        timeout_s=TIMEOUT_S,
        look=stage.look("get", f"infs/{stage.name}", "-o", "jsonpath='{.status.decision}'"),
        seen=lambda: _seen(timeline),
    )


class _Ramp:
    """Lets users come, but not while pods do, and with a pause after the operator's first change."""

    def __init__(self, crowd: Crowd, now_s: float) -> None:
        self._crowd = crowd
        self._next_s = now_s
        self._is_changed = False

    def step(self, view: ServiceView, *, is_changed: bool, now_s: float) -> None:
        """A group joins if it is time."""
        if is_changed and not self._is_changed:
            self._is_changed, self._next_s = True, now_s + PATIENCE_S
        pods_on_their_way = view.ready_replicas != view.desired_replicas
        if now_s >= self._next_s and not pods_on_their_way and self._crowd.users < MOST_USERS:
            self._crowd.join(GROUP)
            self._next_s = now_s + JOIN_INTERVAL_S


def _seen(timeline: Timeline) -> str:
    done = "; ".join(map(str, timeline.applied)) or "no change at all"
    return f"{done}; {timeline.view.ready_replicas} ready; last decision {timeline.view.decision_text}"


def _tell_relief(stage: Stage, records: Sequence[Record], relieved_at_s: float) -> None:
    one = distribution([record.ttft_s for record in records if record.sent_s < relieved_at_s])
    two = distribution([record.ttft_s for record in records if record.sent_s >= relieved_at_s])
    if one and two:
        stage.narrator.news(
            f"TTFT p95 {written(one.p95_s)} with one replica, {written(two.p95_s)} with two "
            f"({one.count} and {two.count} answers)"
        )
