"""A small world for closed-loop tests: a cluster that carries plans out and engines that serve a load.

Engines decode in steps of `base_s + per_seq_s * running` seconds; requests wait in their pod's queue for one
of `max_num_seqs` places. Time moves in ticks, arrivals are evenly spaced, nothing is random.
"""

import bisect
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from operator_builders import LATENCY_EDGES, NOW_S, SETTINGS, SHARE_EDGES, histogram

from headrace_operator.api.names import DRAINING_ANNOTATION
from headrace_operator.api.spec import Limits, ServiceSpec
from headrace_operator.api.status_reading import read
from headrace_operator.decide.controller import decide, recent_start_s
from headrace_operator.decide.histogram import Histogram
from headrace_operator.decide.observation import Observation, PodObservation, Scrape, Window
from headrace_operator.decide.plan import Plan

TICK_S = 0.5


@dataclass
class Sample:
    """What one tick saw, over all pods."""

    at_s: float
    arrivals: int = 0
    good: int = 0
    late: int = 0
    tokens: int = 0
    steps: int = 0
    queue_s: list[float] = field(default_factory=list)
    ttft_s: list[float] = field(default_factory=list)
    itl_s: list[float] = field(default_factory=list)
    running: float = 0.0
    peak: float = 0.0
    waiting: float = 0.0
    oldest_s: float = 0.0


@dataclass
class Engine:
    """One pod and the engine in it."""

    name: str
    created_s: float
    ready_s: float
    limits: Limits
    draining_since_s: float | None = None
    is_left_alone: bool = False
    drains: bool = False
    waiting: deque[float] = field(default_factory=deque)
    running: list[list[float]] = field(default_factory=list)
    """Of each request the tokens that are left, its TTFT and its step times' sum and count."""

    def is_ready(self, now_s: float) -> bool:
        return now_s >= self.ready_s and not self.drains


@dataclass
class Plant:
    """`load` gives requests per second at a time since the start; every request makes `answer_tokens`."""

    spec: ServiceSpec
    load: Callable[[float], float]
    answer_tokens: int = 20
    base_s: float = 0.05
    per_seq_s: float = 0.01
    start_up_s: float = 10.0
    now_s: float = NOW_S
    status: dict[str, Any] = field(default_factory=dict)
    children: dict[str, dict[str, Any]] = field(default_factory=dict)
    engines: list[Engine] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    broken: int = 0
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    _due: float = 0.0
    _made: int = 0

    def run(self, seconds: float, *, reconcile_every_s: float = 5.0) -> "Plant":
        end_s, next_s = self.now_s + seconds, self.now_s
        while self.now_s < end_s:
            if self.now_s >= next_s:
                self.reconcile()
                next_s = self.now_s + reconcile_every_s
            self.now_s += TICK_S
            self._serve()
        return self

    def reconcile(self) -> Plan:
        plan = decide(self.observe(), self.spec, settings=SETTINGS, now_s=self.now_s)
        self.plans.append((self.now_s, plan))
        self.carry_out(plan)
        return plan

    def observe(self) -> Observation:
        previous = read(self.status)
        pods = tuple(self._pod(engine) for engine in self.engines)
        start_s = recent_start_s(self.spec, previous, pods, now_s=self.now_s)
        return Observation(
            children=self.children,
            previous=previous,
            pods=pods,
            window=self._window(self.now_s - self.spec.slo.window_s),
            recent=self._window(start_s),
            observing_since_s=self.samples[0].at_s if self.samples else None,
        )

    def carry_out(self, plan: Plan) -> None:
        if plan.status is not None:
            self.status = dict(plan.status)
        for manifest in plan.objects:
            self.children[manifest["kind"]] = dict(manifest)
        by_name = {engine.name: engine for engine in self.engines}
        for mark in plan.annotate:
            engine = by_name[mark.pod_name]
            engine.is_left_alone = bool(mark.annotations)
            if DRAINING_ANNOTATION in mark.annotations:
                engine.draining_since_s = self.now_s
        for call in plan.set_limits:
            by_name[call.pod_name].limits = call.limits
        for drain in plan.drain:
            by_name[drain.pod_name].drains = True
        self._follow_deployment()

    def _follow_deployment(self) -> None:
        deployment = self.children["Deployment"]
        wanted = deployment["spec"]["replicas"]
        while len(self.engines) < wanted:
            self._made += 1
            limits = read(self.status).limits or Limits(1, 1)
            name = f"chat-engine-5d9c-{self._made}"
            self.engines.append(Engine(name, self.now_s, self.now_s + self.start_up_s, limits))
        while len(self.engines) > wanted:
            # The order of a ReplicaSet: what is not ready first, then the lowest deletion cost.
            gone = min(self.engines, key=lambda e: (e.is_ready(self.now_s), e.draining_since_s is None))
            self.broken += len(gone.running) + len(gone.waiting)
            self.engines.remove(gone)
        count = len(self.engines)
        deployment["status"] = {"observedGeneration": 1, "replicas": count, "updatedReplicas": count}

    def _serve(self) -> None:
        sample = Sample(self.now_s)
        ready = [engine for engine in self.engines if engine.is_ready(self.now_s)]
        self._due += self.load(self.now_s - NOW_S) * TICK_S
        while self._due >= 1 and ready:
            self._due -= 1
            sample.arrivals += 1
            least = min(ready, key=lambda engine: (len(engine.waiting) + len(engine.running), engine.name))
            least.waiting.append(self.now_s - TICK_S * self._due % TICK_S)
        for engine in self.engines:
            self._step(engine, sample)
        if ready:
            sample.running = sum(len(engine.running) for engine in ready) / len(ready)
            sample.peak = max(len(engine.running) for engine in ready)
        sample.waiting = sum(len(engine.waiting) for engine in ready)
        ages = [self.now_s - engine.waiting[0] for engine in ready if engine.waiting]
        sample.oldest_s = max(ages, default=0.0)
        self.samples.append(sample)

    def _step(self, engine: Engine, sample: Sample) -> None:
        while engine.waiting and len(engine.running) < engine.limits.max_num_seqs:
            waited_s = max(0.0, self.now_s - engine.waiting.popleft())
            ttft_s = waited_s + self.base_s + self.per_seq_s * (len(engine.running) + 1)
            engine.running.append([float(self.answer_tokens), ttft_s, 0.0, 0.0])
            sample.queue_s.append(waited_s)
            sample.ttft_s.append(ttft_s)
        if not engine.running:
            return
        itl_s = self.base_s + self.per_seq_s * len(engine.running)
        tokens = TICK_S / itl_s
        sample.steps += max(1, round(tokens))
        sample.tokens += round(tokens * len(engine.running))
        sample.itl_s.extend([itl_s] * len(engine.running))
        for request in engine.running:
            request[0] -= tokens
            request[2] += itl_s
            request[3] += 1
        for ttft_s, summed_s, steps in [request[1:] for request in engine.running if request[0] <= 0]:
            slo = self.spec.slo
            is_good = ttft_s <= (slo.ttft_s or ttft_s) and summed_s / steps <= (slo.itl_s or 1e9)
            sample.good += is_good
            sample.late += not is_good
        engine.running = [request for request in engine.running if request[0] > 0]

    def _pod(self, engine: Engine) -> PodObservation:
        ready, number = engine.is_ready(self.now_s), int(engine.name.rpartition("-")[2])
        in_flight = len(engine.running) + len(engine.waiting)
        return PodObservation(
            name=engine.name,
            uid=f"uid-{number}",
            ip=f"10.0.0.{number}",
            created_s=engine.created_s,
            phase="Running",
            ready=ready,
            deleting=False,
            ready_since_s=engine.ready_s if ready else None,
            draining_since_s=engine.draining_since_s,
            is_left_alone=engine.is_left_alone,
            scrape=Scrape(self.now_s, engine.limits, in_flight, engine.drains)
            if self.now_s >= engine.ready_s
            else None,
        )

    def _window(self, start_s: float) -> Window | None:
        first = bisect.bisect_left(self.samples, start_s, key=lambda sample: sample.at_s)
        seen = self.samples[first:]
        if not seen:
            return None
        ready = sum(engine.is_ready(self.now_s) for engine in self.engines)
        tokens = sum(sample.tokens for sample in seen)
        return Window(
            start_s=seen[0].at_s,
            end_s=seen[-1].at_s,
            longest_gap_s=TICK_S,
            pods_reporting=ready,
            pods_expected=ready,
            arrivals=sum(sample.arrivals for sample in seen),
            rejections=0,
            good=sum(sample.good for sample in seen),
            late=sum(sample.late for sample in seen),
            failed=0,
            prompt_tokens=0,
            generation_tokens=tokens,
            preemptions=0,
            steps=sum(sample.steps for sample in seen),
            queue_time_s=_all(sample.queue_s for sample in seen),
            ttft_s=_all(sample.ttft_s for sample in seen),
            itl_s=_all(sample.itl_s for sample in seen),
            step_budget_used_ratio=histogram([0.05] * len(seen), SHARE_EDGES),
            running_per_pod=sum(sample.running for sample in seen) / len(seen),
            running_peak=max(sample.peak for sample in seen),
            waiting=sum(sample.waiting for sample in seen) / len(seen),
            oldest_waiting_age_s=seen[-1].oldest_s,
            kv_used_ratio=0.1,
        )


def _all(values: Iterable[list[float]]) -> Histogram:
    edges = tuple(sorted({*LATENCY_EDGES, 0.15, 0.2, 0.3, 0.4, 0.75, 1.5, 2.0}))
    return histogram([value for some in values for value in some], edges)
