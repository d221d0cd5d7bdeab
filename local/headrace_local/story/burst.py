"""Chapter: more load than one replica can carry. The operator moves limits, adds a replica, says why."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_bench.duration import written
from headrace_bench.load import Bounds
from headrace_bench.record import Record
from headrace_bench.session import Settings
from headrace_bench.summary import distribution
from headrace_bench.workload import Lengths
from headrace_local.story.service import Decision, ServiceView
from headrace_local.story.stage import Stage
from headrace_local.story.timeline import Timeline
from headrace_local.story.traffic import Traffic

USERS = 12
LENGTHS = Lengths(input_tokens=48, output_tokens=40, spread_ratio=0.5)
TIMEOUT_S = 150.0
RELIEF_S = 10.0
"""How long the load goes on once the second replica serves."""
LIMIT_ACTIONS = frozenset({"RaiseSeqLimit", "LowerSeqLimit", "RaiseTokenBudget", "LowerTokenBudget"})


@dataclass(frozen=True, slots=True)
class Burst:
    """What the operator did under load, with its reasons, and every request that was sent."""

    records: Sequence[Record]
    limits_before: tuple[int | None, int | None]
    limits_after: tuple[int | None, int | None]
    limit_changes: tuple[Decision, ...]
    scale_ups: tuple[Decision, ...]
    ready_replicas: int | None


def burst(stage: Stage, base_url: str, before: ServiceView) -> Burst:
    """Loads the service until its limits have moved and two replicas serve, and a little longer."""
    stage.narrator.chapter(f"A burst: {USERS} users who ask again as soon as they are answered")
    stage.narrator.command(
        f"headrace bench --base-url {base_url} --concurrency {USERS} --input-tokens {LENGTHS.input_tokens} "
        f"--output-tokens {LENGTHS.output_tokens} --spread {LENGTHS.spread_ratio}"
    )
    traffic = Traffic(Settings(base_url, LENGTHS, Bounds(duration_s=TIMEOUT_S * 2), concurrency=USERS))
    try:
        timeline = Timeline(stage, traffic, before)
        relieved_at_s = _until_relieved(stage, timeline, traffic)
        until_s = stage.clock() + RELIEF_S
        while stage.clock() < until_s:
            timeline.look()
            stage.pause(0.25)
    finally:
        records = traffic.stop()
    _tell_relief(stage, records, relieved_at_s)
    return Burst(
        records=records,
        limits_before=before.limits,
        limits_after=timeline.view.limits,
        limit_changes=tuple(change for change in timeline.applied if change.action in LIMIT_ACTIONS),
        scale_ups=tuple(change for change in timeline.applied if change.action == "ScaleUp"),
        ready_replicas=timeline.view.ready_replicas,
    )


def _until_relieved(stage: Stage, timeline: Timeline, traffic: Traffic) -> float:
    """Waits for the limit change and the second replica; the load's own time at that moment."""

    def relieved() -> float | None:
        view = timeline.look()
        moved = any(change.action in LIMIT_ACTIONS for change in timeline.applied)
        return traffic.now_s if moved and (view.ready_replicas or 0) >= 2 else None

    return stage.until(
        "the operator to change a limit and to have two replicas ready",
        relieved,
        timeout_s=TIMEOUT_S,
        look=stage.look("get", f"infs/{stage.name}", "-o", "jsonpath='{.status.decision}'"),
        seen=lambda: _seen(timeline),
    )


def _seen(timeline: Timeline) -> str:
    done = "; ".join(map(str, timeline.applied)) or "no change at all"
    return f"{done}; {timeline.view.ready_replicas} ready; last decision {timeline.view.decision}"


def _tell_relief(stage: Stage, records: Sequence[Record], relieved_at_s: float) -> None:
    one = distribution([record.ttft_s for record in records if record.sent_s < relieved_at_s])
    two = distribution([record.ttft_s for record in records if record.sent_s >= relieved_at_s])
    if one and two:
        stage.narrator.news(
            f"TTFT p95 {written(one.p95_s)} with one replica, {written(two.p95_s)} with two "
            f"({one.count} and {two.count} answers)"
        )
