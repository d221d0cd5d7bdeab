"""Chapter: the burst is over. One user goes on asking while a replica is drained and removed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headrace_bench.record import Outcome, Record
from headrace_bench.workload import Lengths
from headrace_local.story.failure import StoryFailed
from headrace_local.story.service import Decision
from headrace_local.story.stage import Stage
from headrace_local.story.timeline import Timeline
from headrace_local.story.traffic import Crowd

LENGTHS = Lengths(input_tokens=24, output_tokens=24)
TIMEOUT_S = 150.0


@dataclass(frozen=True, slots=True)
class Calmed:
    """The removal, its reason, and every request that was under way meanwhile."""

    records: Sequence[Record]
    scale_downs: tuple[Decision, ...]
    replicas: int


def calm(stage: Stage, base_url: str) -> Calmed:
    """Keeps one user asking until a single replica is left."""
    stage.narrator.chapter("The burst is over: one user left, and one replica too many")
    before = stage.view()
    if before is None:
        raise StoryFailed(f"infs/{stage.name} to be there", "none", stage.look("get", "infs"))
    crowd = Crowd(base_url, LENGTHS)
    try:
        crowd.join(1)
        timeline = Timeline(stage, crowd, before)

        def shrunk() -> int | None:
            view = timeline.look()
            pods = len(stage.api.pods(stage.namespace, stage.selector))
            return pods if pods == 1 and view.replicas == 1 and view.ready_replicas == 1 else None

        replicas = stage.until(
            "one replica drained and removed",
            shrunk,
            timeout_s=TIMEOUT_S,
            look=stage.look("describe", f"infs/{stage.name}"),
            seen=lambda: f"{timeline.view.replicas} replicas; last decision {timeline.view.decision_text}",
        )
    finally:
        records = crowd.leave()
    return Calmed(records, tuple(c for c in timeline.applied if c.action == "ScaleDown"), replicas)


def require_whole_streams(stage: Stage, records: Sequence[Record]) -> None:
    """Tells how all requests ended. Raises `StoryFailed` where a stream broke or a request failed."""
    outcomes = Counter(record.outcome for record in records)
    counted = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome)
    bad = [record.detail for record in records if record.outcome in {Outcome.BROKEN, Outcome.FAILED}]
    if bad:
        seen = f"{counted}: {Counter(bad).most_common(1)[0][0]}"
        raise StoryFailed(
            "every answer to end whole", seen, stage.look("logs", "-l", stage.selector, "--prefix")
        )
    stage.narrator.news(f"{len(records)} requests through scale-up and scale-down: {counted}")
