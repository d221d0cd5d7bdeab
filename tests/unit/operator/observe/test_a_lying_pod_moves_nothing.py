"""One pod of four says what no engine can: it is named, nothing grows by its word, nothing is taken away."""

import math
from dataclasses import replace

import pytest
from operator_builders import NOW_S, SETTINGS, deployment, observation, pod, service

from headrace_operator.decide.controller import decide
from headrace_operator.observe.exposition import parse
from headrace_operator.observe.pods import observe_pod
from headrace_operator.observe.sample import sample
from headrace_operator.observe.series import PodSeries
from headrace_operator.observe.windows import ServiceWindows
from headrace_operator.runtimes.metric_map import HEADRACE, Counter, Distribution, Gauge

PODS = ("a", "b", "c", "liar")
NAMES = {
    "arrivals": "headrace_requests_received_total",
    "refused": "headrace_request_rejections_total",
    "generated": "vllm:generation_tokens_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "age": "headrace_oldest_waiting_age_seconds",
    "kv": "vllm:kv_cache_usage_perc",
    "started": "headrace_start_time_seconds",
}
WAITS = "headrace_queue_time_seconds"


def page(at_s, *, waits=0, **said):
    """What an engine says that has answered ten requests a second since it started."""
    count = 10 * at_s
    truth = {
        "arrivals": count,
        "refused": 0,
        "generated": 50 * count,
        "running": 4,
        "waiting": 0,
        "age": 0,
        "kv": 0.2,
        "started": 1,
    }
    lines = [f"{NAMES[name]} {value}" for name, value in {**truth, **said}.items()]
    buckets = [f'{WAITS}_bucket{{le="{edge}"}} {count}' for edge in (0.01, 0.1, 1.0)]
    total = count + waits
    lines += [
        *buckets,
        f'{WAITS}_bucket{{le="60"}} {total}',
        f"{WAITS}_count {total}",
        f"{WAITS}_sum {total}",
    ]
    return sample(
        parse("\n".join(lines).encode(), wanted=HEADRACE.wanted), metrics=HEADRACE, at_s=NOW_S + at_s
    )


LIES = {
    "a count in the billions": lambda at_s: {"arrivals": 1e9 * at_s},
    "tokens in the billions": lambda at_s: {"generated": 1e12},
    "a gauge in the billions": lambda at_s: {"running": 1e9, "waiting": 1e9},
    "a wait of thirty years": lambda at_s: {"age": 1e9},
    "a cache used a billion times over": lambda at_s: {"kv": 1e9},
    "a billion waits of a minute": lambda at_s: {"waits": 1e9},
    "no number": lambda at_s: {"running": math.nan, "age": math.inf},
    "less than nothing": lambda at_s: {"running": -1, "waiting": -1},
    "backwards": lambda at_s: {"arrivals": 70 - at_s, "generated": 700 - at_s},
    "to and fro": lambda at_s: {"arrivals": 10 * at_s if at_s % 4 else 0},
}


def watched(lie):
    """A minute of scrapes, in which the liar lies from the tenth second on."""
    windows = ServiceWindows()
    for at_s in range(0, 61, 2):
        for uid in PODS:
            said = lie(at_s) if uid == "liar" and at_s >= 10 else {}
            windows.record(uid, page(at_s, **said), longest_break_s=60.0, retention_s=120.0)
    return windows


def seen(windows, start_s=NOW_S):
    return windows.window(start_s=start_s, now_s=NOW_S + 60, ready_uids=PODS, fresh_s=6.0)


HONEST = seen(watched(lambda at_s: {}))


@pytest.mark.parametrize("lie", LIES)
def test_what_was_said_counts_for_nothing(lie):
    found = seen(watched(LIES[lie]))
    assert found.arrivals <= HONEST.arrivals
    assert found.generation_tokens <= HONEST.generation_tokens
    assert found.running_per_pod == pytest.approx(HONEST.running_per_pod)
    assert found.oldest_waiting_age_s == 0
    assert found.kv_used_ratio <= 0.2
    assert found.queue_time_s.quantile(0.95) <= HONEST.queue_time_s.quantile(0.95)
    assert (found.pods_reporting, found.pods_expected) == (3, 4)


def decided(windows):
    """Four pods, of which one could go for all that is known."""
    spec = service({"scaling": {"maxReplicas": 8}})
    enough = {"replicas": 3, "since": "2027-01-01T00:00:00Z"}
    pods = [
        replace(pod(number, uid=uid, name=uid), scrape=observe_pod(raw_pod(uid), windows.latest(uid)).scrape)
        for number, uid in enumerate(PODS)
    ]
    facts = observation(
        spec,
        pods=pods,
        recent=seen(windows, NOW_S + 38),
        window=seen(windows),
        previous={"desiredReplicas": 4, "pressure": {"enough": [enough]}},
        children={"Deployment": deployment(4, spec=spec)},
    )
    return decide(facts, spec, settings=SETTINGS, now_s=NOW_S + 60)


def test_without_the_lie_there_would_be_a_pod_less():
    assert decided(watched(lambda at_s: {})).status["desiredReplicas"] == 3


@pytest.mark.parametrize("lie", LIES)
def test_the_service_neither_grows_nor_shrinks_and_says_which_pod_lies(lie):
    plan = decided(watched(LIES[lie]))
    assert plan.status["desiredReplicas"] == 4
    [found] = [item for item in plan.status["conditions"] if item["type"] == "MetricsAvailable"]
    assert found["reason"] == "PodReportsImplausible"
    assert "liar" in found["message"]
    assert "PodReportsImplausible" in [event.reason for event in plan.events]


def raw_pod(uid):
    return {"metadata": {"name": uid, "uid": uid, "creationTimestamp": "2027-01-01T00:00:00Z"}, "status": {}}


HUGE = 1.7e308
SUMS_WITHOUT_END = {
    "a count": [(f'{NAMES["arrivals"]}{{api="{api}"}}', HUGE) for api in "ab"],
    "a digest": [(f'headrace_tenants_digest{{of="{of}"}}', HUGE) for of in "ab"],
    "waits": [(f'{WAITS}_{part}{{le="1",of="{of}"}}', HUGE) for of in "ab" for part in ("bucket", "count")],
    "seconds of waits": [
        *((f'{WAITS}_{part}{{le="1"}}', 1) for part in ("bucket", "count")),
        *((f'{WAITS}_sum{{api="{api}"}}', HUGE) for api in "ab"),
    ],
}


def test_no_sum_of_what_was_said_ends_a_reconcile():
    """Each value is a number, and what they add up to is none: from the first scrape on."""
    for said in SUMS_WITHOUT_END.values():
        windows = ServiceWindows()
        for at_s in (56, 58, 60):
            body = "\n".join(f"{name} {value}" for name, value in said).encode()
            raw = sample(parse(body, wanted=HEADRACE.wanted), metrics=HEADRACE, at_s=NOW_S + at_s)
            windows.record("liar", raw, longest_break_s=60.0, retention_s=120.0)
        found = windows.window(start_s=NOW_S, now_s=NOW_S + 60, ready_uids=("liar",), fresh_s=6.0)
        assert (found.arrivals, found.pods_reporting) == (None, 0)
        assert observe_pod(raw_pod("liar"), windows.latest("liar")).scrape.is_implausible


def test_nor_do_buckets_that_move_from_scrape_to_scrape():
    series = PodSeries()
    for at_s in range(0, 60, 2):
        edge = 1 + at_s % 4
        said = f'{WAITS}_bucket{{le="{edge}"}} {HUGE}\n{WAITS}_count {HUGE}\n{WAITS}_sum {HUGE}'
        series.append(
            sample(parse(said.encode(), wanted=HEADRACE.wanted), metrics=HEADRACE, at_s=NOW_S + at_s)
        )
        assert Distribution.QUEUE_TIME not in series.samples[-1].distributions


def test_a_pod_is_believed_again_once_it_says_what_can_be():
    series = PodSeries()
    for at_s in (0, 2):
        series.append(page(at_s))
    series.append(page(4, arrivals=1e9))
    assert series.latest.implausible == 1
    assert Counter.ARRIVALS not in series.latest.counters
    series.append(page(6))
    assert series.latest.implausible == 0
    assert series.samples[-1].counters[Counter.ARRIVALS] == 60


def test_a_restart_is_no_lie_whatever_was_said_before_it():
    series = PodSeries()
    for at_s in (100, 102):
        series.append(page(at_s))
    series.append(page(104, arrivals=1e9))
    series.append(page(106, arrivals=5, started=2, generated=7))
    assert series.latest.implausible == 0
    counted = [found.counters.get(Counter.ARRIVALS) for found in series.samples]
    assert counted == [1000, 1020, None, 1025]


def test_a_restart_gives_no_licence_to_lie():
    series = PodSeries()
    for at_s in (0, 2):
        series.append(page(at_s))
    for number, at_s in enumerate(range(4, 20, 2)):
        series.append(page(at_s, arrivals=1e9, waits=1e9, started=10 + number))
        assert Counter.ARRIVALS not in series.latest.counters
        assert Distribution.QUEUE_TIME not in series.latest.distributions


def test_a_very_busy_engine_is_believed():
    series = PodSeries()
    for at_s in range(0, 20, 2):
        series.append(
            page(at_s, arrivals=5000 * at_s, generated=1e6 * at_s, running=4096, waiting=100_000, age=600)
        )
        assert series.latest.implausible == 0
    assert series.latest.gauges[Gauge.RUNNING] == 4096
