"""Counters are fed from what a step said, never from requests that have changed since."""

import random

from headrace_engine.core.limits import Capacity, Limits
from headrace_engine.core.plan import Outcome
from headrace_engine.core.request import Request
from headrace_engine.core.scheduler import Scheduler
from headrace_engine.telemetry.metrics import SLO, Metrics
from headrace_engine.telemetry.recorder import Recorder
from headrace_engine.telemetry.report import Step, StepReport

CAPACITY = Capacity(max_num_seqs=4, max_num_batched_tokens=16, max_model_len=64, num_blocks=12, block_size=2)
STOP_ID = 0


class Engine:
    """A pool so small that requests are preempted; clients leave; reports wait to be recorded."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(capacity=CAPACITY)
        self.reports: list[StepReport] = []
        self._chance = random.Random(5)
        self._num_requests = 0

    def turn(self, now_s: float) -> None:
        accepted, events = [], []
        for _ in range(self._chance.randint(0, 2)):
            self._num_requests += 1
            prompt = tuple(range(self._chance.randint(1, 8)))
            request = Request(
                f"r{self._num_requests}", prompt, 10, now_s, stop_token_ids=frozenset([STOP_ID])
            )
            if self.scheduler.submit(request, now_s) is None:
                accepted.append(request)
        if self._chance.random() < 0.2 and self._num_requests:
            left = self.scheduler.abort(f"r{self._chance.randint(1, self._num_requests)}")
            events += [left] if left else []
        plan = self.scheduler.schedule(now_s)
        sampled = {
            row.request_id: [self._chance.choice([STOP_ID, 7, 7, 7])] for row in plan.rows if row.sampled_rows
        }
        events += self.scheduler.commit(plan, Outcome(sampled, 0.01), now_s)
        snapshot, limits = self.scheduler.snapshot(now_s), Limits.of(CAPACITY)
        step = Step.of(plan, 0.01)
        self.reports.append(StepReport(now_s, tuple(accepted), (), tuple(events), step, limits, snapshot))


def counters(metrics: Metrics) -> dict[tuple[object, ...], float]:
    """Every sample that must not fall."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in metrics.registry.collect()
        if family.type in ("counter", "histogram")
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_no_counter_ever_falls_however_late_a_report_is_recorded() -> None:
    engine, metrics = Engine(), Metrics(model_name="m", max_model_len=64, slo=SLO())
    recorder = Recorder(metrics, SLO(), clock=lambda: 0.0)
    before: dict[tuple[object, ...], float] = {}
    for turn in range(300):
        engine.turn(0.01 * turn)
        if turn < 20:
            continue
        recorder.record(engine.reports.pop(0))
        after = counters(metrics)
        assert all(after[name] >= value for name, value in before.items())
        before = after
    for report in engine.reports:
        recorder.record(report)
    snapshot = engine.scheduler.snapshot(3.0)
    assert snapshot.preemptions_total
    value = metrics.registry.get_sample_value
    labels = {"model_name": "m", "engine": "0"}
    assert value("vllm:num_preemptions_total", labels) == snapshot.preemptions_total
    assert value("headrace_requests_received_total", {"model_name": "m"}) == snapshot.accepted_total
    assert value("headrace_requests_unaccounted", {"model_name": "m"}) == 0
