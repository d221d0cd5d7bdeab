"""The table of a load: one row every two seconds, and between the rows what the operator changed and why."""

from headrace_bench.duration import written
from headrace_bench.record import Outcome
from headrace_bench.summary import distribution
from headrace_local.story.service import Decision, ServiceView
from headrace_local.story.stage import Stage
from headrace_local.story.traffic import Crowd

ROW_INTERVAL_S = 2.0
RECENT_S = 6.0
HEADINGS = (
    "users",
    "waiting",
    "answered",
    "broken",
    "TTFT p50",
    "p95",
    "seqs/tokens",
    "ready",
    "decision",
)
WIDTHS = (5, 7, 8, 6, 9, 9, 11, 5)


class Timeline:
    """Follows one load and one service. `applied` are the operator's changes since it began, oldest first."""

    def __init__(self, stage: Stage, crowd: Crowd, view: ServiceView) -> None:
        self._stage = stage
        self._crowd = crowd
        self._known = {change.id for change in view.history}
        self._slo_met = view.condition("SLOMet")
        self._next_row_s = 0.0
        self.view = view
        self.applied: list[Decision] = []
        stage.narrator.row(HEADINGS, WIDTHS, heading=True)

    def look(self) -> ServiceView:
        """Reads the service, tells what changed, and adds a row when it is time."""
        self.view = self._stage.view() or self.view
        self._tell_changes()
        if self._stage.clock() >= self._next_row_s:
            self._next_row_s = self._stage.clock() + ROW_INTERVAL_S
            self._stage.narrator.row(self._row(), WIDTHS)
        return self.view

    def _tell_changes(self) -> None:
        for change in reversed(self.view.history):
            if change.id not in self._known:
                self._known.add(change.id)
                self.applied.append(change)
                self._stage.narrator.news(f"operator: {change}")
                self._tell_rejected(change)
        met = self.view.condition("SLOMet")
        if met is not None and (self._slo_met is None or met.status != self._slo_met.status):
            self._stage.narrator.tell(f"{met}: {met.message}")
        self._slo_met = met

    def _tell_rejected(self, change: Decision) -> None:
        decision = self.view.decision
        if decision is not None and decision.id == change.id:
            for rejected in decision.rejected:
                self._stage.narrator.tell(f"  rather than {rejected}")

    def _row(self) -> tuple[str, ...]:
        records = self._crowd.records
        since_s = self._crowd.now_s - RECENT_S
        ttft = distribution([record.ttft_s for record in records if record.ended_s >= since_s])
        decision = self.view.decision
        return (
            str(self._crowd.users),
            self._waiting(),
            str(sum(record.outcome is Outcome.OK for record in records)),
            str(sum(record.outcome is Outcome.BROKEN for record in records)),
            written(ttft.p50_s if ttft else None),
            written(ttft.p95_s if ttft else None),
            self.view.limits_text,
            f"{self.view.ready_replicas}/{self.view.desired_replicas}",
            f"{decision.action} {decision.reason}" if decision else "-",
        )

    def _waiting(self) -> str:
        """Requests that wait in the engines' queues, by the engines themselves.

        A pod that is being removed gets none, and asked after its end, it would keep the story waiting.
        """
        stage = self._stage
        pods = stage.api.pods(stage.namespace, stage.selector)
        names = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        waiting = [stage.api.gauge(stage.namespace, name, "vllm:num_requests_waiting") for name in names]
        known = [count for count in waiting if count is not None]
        return f"{sum(known):.0f}" if known else "-"
